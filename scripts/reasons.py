"""The reasons an error can carry: collected from the source, and told in words.

`code` says what kind of error it is; `reason` is finer. Every literal reason in the source must stand in REASONS or,
for what a verification finds, in FAULTS; `make docs` fails for one that does not, and for one that is no longer used.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

#: reason → what happened, and what to do.
REASONS = {
    "agent_not_allowed": "The credential may not act for the agent that the request names.",
    "already_decided": "The proposal was approved or rejected before, or has lapsed.",
    "altered_entry": "A journal entry does not hold what its hash covers. Run `quipu verify`.",
    "altered_record": "A record cannot be read back as it was written. Run `quipu verify`.",
    "ambiguous_name": "Several records have this entity name. Use an id.",
    "approval_on_recall": "A recall cannot be held for approval.",
    "atomic_approval": "An atomic batch cannot wait for a person, and a rule or the caller wants one to look. Send that item by itself.",
    "backup": "The backup could not be written. Check the disk's space and the folder's permissions.",
    "bad_address": "The address to listen on does not exist on this machine.",
    "bad_answer": "What answered is not understood. Is it the address of a Quipu server?",
    "bad_certificate": "The server's certificate or its key cannot be read, or they do not belong together.",
    "bad_credentials": "Too many bad credentials came from this address. `Retry-After` says how long to wait.",
    "bad_file": "A compressed file is damaged or cut short.",
    "bad_filter": "The filter is not well formed. The pointer names the place.",
    "bad_json": "The text is not JSON, or not an object where one is needed.",
    "bad_key": "The signing key beside the ledger cannot be read. Restore it from a backup.",
    "bad_setting": "A setting has no such name, or a value that makes no sense.",
    "bad_token": "No credential was shown, or not one that is known here.",
    "bad_value": "The field has a value that is not accepted. `accepted` says what would be.",
    "busy": "Another process held the write lock for 30 seconds. Try again.",
    "cache_unusable": "The folder for built models cannot be written. Set `QUIPU_CACHE` to one that can.",
    "cannot_listen": "The system does not let the server listen on this address or port.",
    "cannot_open": "The file cannot be opened. Check its path and permissions.",
    "canonical": "The record to merge into does not exist, is out of reach, or is not live.",
    "closed": "The memory or its ledger was closed before the call.",
    "confirmation_required": "The command would remove much, and nobody can be asked. Repeat with `--yes`.",
    "constraint": "The write contradicts what the ledger holds.",
    "copy_differs": "What was copied does not verify, so nothing of it was kept. Run `quipu verify` on the original.",
    "corrupt": "The database file is damaged. Restore the latest backup.",
    "decided_meanwhile": "Others decided on the same proposal at the same time, again and again. Try again.",
    "deadline": "The recall was not done within its `deadline_ms`.",
    "denied": "PostgreSQL does not let this user in, or not do that. Check user, password and rights.",
    "denied_by_rule": "A rule of the operator denies this write.",
    "disk_full": "The disk is full. Nothing of the write was kept.",
    "embedding_mismatch": "A vector is of another model or length than this memory's. See `quipu reembed`.",
    "empty_policy": "An expiry policy must name at least one condition.",
    "endpoint_answer": "The embedding endpoint answered with something that is no list of vectors.",
    "endpoint_rate_limited": "The embedding endpoint refused for now (status 429).",
    "endpoint_refused": "The embedding endpoint answered with an error status.",
    "endpoint_timeout": "The embedding endpoint did not answer in time.",
    "endpoint_unreachable": "The embedding endpoint cannot be reached. Check `QUIPU_EMBEDDER_URL`.",
    "exists": "The file or folder to write exists already. Choose another name, or repeat with `--force`.",
    "foreign_form": "A form of the page was sent by another site, or is older than the session. Open the page again.",
    "horizon": "The position to prune up to lies beyond the end of the journal.",
    "host": "The server does not answer to the host name, or to pages of the origin, that sent the request. See `QUIPU_ALLOWED_HOSTS`.",
    "idempotency_key_mismatch": "The key was used for a different request. Use a new key.",
    "identity_provider": "The identity provider whose tokens are believed does not answer.",
    "insecure": "The way to the server is not safe: no TLS beyond this machine, or a certificate nobody vouches for.",
    "invalid_procedure": "A procedure's content is not a machine: a JSON object with states and transitions.",
    "invalid_trigger": "The procedure does nothing on this trigger now. `accepted` names the triggers that do something.",
    "io_error": "The disk failed while reading or writing. Nothing half-written was kept.",
    "ledger": "The ledger failed in a way that has no other name.",
    "malformed": "The key of the embedding endpoint holds characters that no HTTP header can carry.",
    "media_type": "The body is of another media type or encoding than the address takes. `accepted` says which.",
    "method": "The address does not take this method. `accepted` and the header `Allow` say which it takes.",
    "missing_extra": "The store needs a package that is not installed. The hint names the command that installs it.",
    "missing_field": "A required field is absent.",
    "missing_file": "An exported journal lacks the file that is to be checked.",
    "missing_key": "The public key that made a signature is not at hand, so it could not be checked.",
    "missing_scope": "The credential lacks the permission that the operation needs.",
    "model_failed": "The embedding model failed on a text.",
    "model_unloadable": "onnxruntime cannot load the embedding model. Upgrade it, or choose another embedder.",
    "name_taken": "A memory store of this name exists already.",
    "newer_schema": "The file was written by a newer Quipu. Upgrade; the file was not touched.",
    "no_citus": "The server has nothing that spreads tables over machines. Install Citus first.",
    "no_credential": "The address needs a credential, and none was sent. Send `Authorization: Bearer <token>`.",
    "no_database": "There is no such database on the PostgreSQL server. Create it first.",
    "no_embedder": "The operation needs an embedder, and `QUIPU_EMBEDDER` is `none`.",
    "no_file": "A file that was named cannot be read.",
    "no_memory": "There was not enough memory for the database.",
    "no_pgvector": "The database lacks the extension pgvector, and this user may not create it.",
    "no_schema": "There is nothing of Quipu's in the database yet. Run `quipu db init`.",
    "no_scope": "`forget` needs ids or a filter. There is no way to forget everything at once.",
    "no_tls": "A server that listens beyond this machine needs TLS, its own or that of a proxy in front of it.",
    "not_a_database": "The file is not a Quipu database. It was not touched.",
    "not_empty": "The place to copy to holds memories already. Choose an empty one.",
    "not_forgotten": "The record is live: there is nothing to restore.",
    "not_the_writer": "A held write is taken back by who wrote it; a reviewer rejects it.",
    "older_schema": "The database was made by an older Quipu. Run `quipu db migrate` when its servers are stopped or upgraded.",
    "open_to_all": "A server without authentication listens on this machine only.",
    "outcome_unknown": "The database went away during a commit. Repeat the request with the same idempotency key.",
    "overloaded": "Too many requests are at work in the server. `Retry-After` says when to come back.",
    "own_tenant": "An operator cannot suspend the tenant of the own credential.",
    "port_in_use": "Another program listens on the server's port.",
    "proposal": "There is no such proposal in reach.",
    "quorum_unreachable": "`quorum_k` asks for more backends than there are, or than answered.",
    "read_only": "The file or its folder is read-only.",
    "recall_budget": "The memories this credential may be given in an hour are spent. `Retry-After` says when some come free.",
    "record": "There is no such record in reach. Forgotten and expired ones answer the same.",
    "rejected": "A reviewer said no, or the writer took the write back, while the caller waited for the decision.",
    "request": "The server did not finish the request within `QUIPU_REQUEST_TIMEOUT_S`.",
    "request_rate": "The credential sends more requests a minute than it may. `Retry-After` says how long to wait.",
    "review_action": "Where several people must agree, they agree to what was proposed: it is not edited, merged or superseding.",
    "route": "There is nothing at this address of the server.",
    "rules": "The rules that are kept were written by a newer Quipu, and are not understood. Nothing is written until they are.",
    "run_by_client": "A client does not say which run or node writes; the server knows.",
    "schema": "There is no published schema of that name.",
    "scope_mismatch": "Records of different users or stores cannot be merged.",
    "secret": "There is no such registered secret.",
    "secret_found": "The text holds a secret that cannot be rewritten, or the policy refuses such writes. Leave it out.",
    "secrets_changed": "The list of secrets changed while the write was on its way; it is checked again by itself.",
    "self_approval": "Nobody but the local user decides on their own write.",
    "slow_body": "The body of the request paused for too long.",
    "snapshot_unavailable": "That position can no longer be read: retention has emptied it, or there is no such run.",
    "stale_proposal": "What the proposal would change has changed since it was looked at. Look again, then decide.",
    "starting": "The server is still starting. `Retry-After` says when to come back.",
    "store": "There is no memory store of that name.",
    "store_in_use": "The store `main` cannot be deleted.",
    "store_not_allowed": "The MCP client was given one memory store and names another.",
    "tenant": "There is no such tenant in this ledger.",
    "token": "There is no such token.",
    "token_ended": "The token has expired or was revoked; it cannot be rotated. Create a new one.",
    "too_deep": "The JSON is nested deeper than 64 levels.",
    "too_large": "Something is over a limit. See the limits page.",
    "too_many_connections": "PostgreSQL has no connection left. Raise `max_connections`, or lower `QUIPU_POOL_SIZE`.",
    "too_short": "A value to keep out has fewer than 8 characters: it would match by chance.",
    "type_mismatch": "A record's type cannot be changed, and records of different types cannot be merged.",
    "unknown_field": "There is no such field. `accepted` names close ones.",
    "unknown_operator": "There is no such filter operator.",
    "unknown_policy_key": "There is no such key in an expiry policy.",
    "unreachable": "The server or the database cannot be reached, or did not answer in time. Repeated where that is harmless.",
    "usage": "The words on the command line make no sense. `--help` shows what the command takes.",
    "user_not_allowed": "The credential is bound to another user.",
    "version_mismatch": "The record has changed since it was read. Read it again, then repeat.",
    "waits_for_approval": "The change waits for a person's approval; nothing has changed yet. Do not repeat it.",
    "weights_mismatch": "A weights file does not have the SHA-256 sum that the program expects. It is not used.",
    "weights_missing": "The model's weights are nowhere to be found. Recall goes by words until they are.",
    "wrong_type": "The field belongs to another type of memory.",
}

#: kind of fault that a verification names → what it means.
FAULTS = {
    "altered_entry": "A journal entry does not have the hash it states, or a line of an export is damaged.",
    "altered_record": "A version does not match its digest, or an erased one has content.",
    "bad_signature": "A checkpoint's signature is not that of its key.",
    "broken_link": "An entry's `prev` is not the hash of the entry before it.",
    "damaged_file": "The database finds its own files damaged.",
    "digest_differs": "A version states another digest than the journal does.",
    "emptied_record": "A version lost its content without an erasure or a pruning in the journal.",
    "gap": "A position is missing from the journal.",
    "index_differs": "Search terms or a vector do not belong to the text they stand beside.",
    "life_differs": "A version begins or ends at another position than the journal says.",
    "missing_record": "The journal tells of a version that is gone.",
    "no_genesis": "The journal does not begin with its genesis entry.",
    "rewritten": "The journal does not pass through a position that was signed.",
    "time_runs_back": "An entry is older than the one before it.",
    "truncated": "A signed position is beyond the end of the journal: entries were cut off.",
    "unjournaled_record": "A version stands in the ledger but in no journal entry.",
    "wrong_head": "The stored head is not the end of the chain.",
}

#: functions that make a fault of the caller's from a reason: name → position of the reason.
_MAKERS = {"Fault": 1, "fault": 1, "refused": 0}
#: where a literal reason stands in a table instead of a call: variable → (error class, position in each row).
_TABLES = {"_MEANING": ("BackendUnavailableError", 1)}


def collected(source: Path) -> tuple[dict[str, set[str]], set[str]]:
    """Reason → error classes that carry it, and the kinds of fault a verification can name."""
    reasons: dict[str, set[str]] = defaultdict(set)
    kinds: set[str] = set()
    for file in sorted(source.rglob("*.py")):
        if "testing" in file.relative_to(source).parts:
            continue
        tree = ast.parse(file.read_text("utf-8"))
        for error, reason in _in_calls(tree):
            reasons[reason].add(error)
        for error, reason in (*_in_tables(tree), *_in_variables(tree)):
            reasons[reason].add(error)
        kinds |= set(_kinds(tree))
    return dict(reasons), kinds


def _in_calls(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for call in _calls(tree):
        name = _name(call.func)
        if name.endswith("Error"):
            for keyword in call.keywords:
                if keyword.arg == "reason":
                    yield from ((name, text) for text in _texts(keyword.value))
        elif (
            name == "at" and isinstance(call.func, ast.Attribute) and _name(call.func.value).endswith("Error")
        ):
            yield from ((_name(call.func.value), text) for text in _texts(call.args[1]))
        elif name in _MAKERS and len(call.args) > _MAKERS[name]:
            yield from (("InvalidError", text) for text in _texts(call.args[_MAKERS[name]]))


def _in_tables(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if target is None or _name(target) not in _TABLES or not isinstance(node.value, ast.Tuple):
            continue
        error, place = _TABLES[_name(target)]
        for row in node.value.elts:
            if isinstance(row, ast.Tuple):
                yield from ((error, text) for text in _texts(row.elts[place]))


def _in_variables(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """`reason = "a" if … else "b"`, with the error class that the same function raises with `reason`."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        error = next((name for name in _raised_with_variable(function)), "InvalidError")
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                yield from ((error, text) for text in _assigned(node.targets[0], node.value))


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name) and target.id == "reason":
        yield from _texts(value)
    elif isinstance(target, ast.Tuple):
        places = [place for place, item in enumerate(target.elts) if _name(item) == "reason"]
        for branch in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            if isinstance(branch, ast.Tuple):
                yield from (text for place in places for text in _texts(branch.elts[place]))


def _raised_with_variable(function: ast.AST) -> Iterator[str]:
    for call in _calls(function):
        name = _name(call.func)
        if name.endswith("Error") and any(
            keyword.arg == "reason" and _name(keyword.value) == "reason" for keyword in call.keywords
        ):
            yield name


def _kinds(tree: ast.AST) -> Iterator[str]:
    for call in _calls(tree):
        if _name(call.func) == "Fault":
            for keyword in call.keywords:
                if keyword.arg == "kind" and isinstance(keyword.value, ast.Constant):
                    yield str(keyword.value.value)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _texts(node: ast.expr) -> Iterator[str]:
    """The literal texts an expression can be."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=first, orelse=second):
            yield from _texts(first)
            yield from _texts(second)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _texts(value)
        case _:
            return


def gaps(source: Path) -> Iterator[str]:
    """What is used and not told, or told and not used."""
    reasons, kinds = collected(source)
    for used, told, what in (
        (set(reasons), set(REASONS), "the reason"),
        (kinds, set(FAULTS), "the kind of fault"),
    ):
        yield from (f"scripts/reasons.py does not explain {what} {name!r}" for name in sorted(used - told))
        yield from (
            f"scripts/reasons.py explains {what} {name!r}, which is gone" for name in sorted(told - used)
        )
