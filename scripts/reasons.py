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
    "action": "The host has no such action; its tool manifest lists them.",
    "address_refused": "Another host was to be asked at an address that is not https, or inside a private network.",
    "agent": "There is no such agent in the OpenWOP inventory.",
    "agent_not_allowed": "The credential may not act for the agent that the request names.",
    "access_request": "There is no such request for access, or it is not yours to see.",
    "already_decided": "The proposal was approved or rejected before, or has lapsed.",
    "altered_entry": "A journal entry does not hold what its hash covers. Run `quipu verify`.",
    "altered_proposal": "What waits for a decision is not what was held. Reject it, and have it proposed again.",
    "altered_record": "A record cannot be read back as it was written. Run `quipu verify`.",
    "altered_store": "A memory store cannot be read back as it was written. Restore the latest backup.",
    "ambiguous_name": "Several records have this entity name. Use an id.",
    "approval_pending": "A rule, or the caller, wants a person to approve this recall first. Once that was done, the same request passes once within 15 minutes.",
    "backend": "A run has no such backend for notes, or it is switched off (`QUIPU_OPENWOP_BACKENDS`).",
    "backup": "The backup could not be written. Check the disk's space and the folder's permissions.",
    "bad_address": "The address to listen on does not exist on this machine.",
    "bad_answer": "What answered is not understood. Is it the address of a Quipu server?",
    "bad_certificate": "The server's certificate or its key cannot be read, or they do not belong together.",
    "bad_credentials": "Too many bad credentials came from this address. `Retry-After` says how long to wait.",
    "bad_did": "The text is no `did:web` or `did:key`, or the DID cannot have what was asked of it.",
    "bad_encoding": "A text in the file is not UTF-8.",
    "bad_file": "A compressed file is damaged or cut short.",
    "bad_filter": "The filter is not well formed. The pointer names the place.",
    "bad_identity": "The text or file holds no age key that files are opened with.",
    "bad_json": "The text is not JSON, or not an object where one is needed.",
    "bad_key": "The signing key beside the ledger cannot be read, so restore it from a backup; or a new one cannot be written: check the folder and the disk's space.",
    "bad_manifest": "An agent's manifest is not what OpenWOP says one is. The pointer names the place.",
    "bad_passphrase": "The passphrase to seal or open a file with is empty.",
    "bad_proof": "An item or a statement about it is not what its proof says.",
    "bad_recipient": "The text is no age recipient (`age1...`) that a file can be sealed to.",
    "bad_setting": "A setting has no such name, or a value that makes no sense.",
    "bad_signature": "A grant, an answer or a request is not signed by a key of whom it claims to be from.",
    "bad_token": "A credential was shown that is not known here. Check that it is whole, and of this server.",
    "bad_value": "The field has a value that is not accepted. `accepted` says what would be.",
    "binding_failed": "The proof that belongs to a token is missing, for another request, of another key, or was used before.",
    "breaker_open": "A mirror or peer keeps failing and is left alone for a while. `quipu mirror status` and health show it.",
    "busy": "Another process held the write lock for 30 seconds, or the database's own limit on time was reached. Try again.",
    "cache_unusable": "The folder for built models cannot be written. Set `QUIPU_CACHE` to one that can.",
    "candidate": "What was to be proposed is not, or no longer, something that the page would suggest.",
    "cannot_listen": "The system does not let the server listen on this address or port.",
    "cannot_open": "The file cannot be opened. Check its path and permissions.",
    "canonical": "The record to merge into does not exist, is out of reach, or is not live.",
    "cap_reached": "The grant names more items than this host lends at once, or has shown as many as it may.",
    "closed": "The memory or its ledger was closed before the call.",
    "confirmation_required": "The command would remove much, and nobody can be asked. Repeat with `--yes`.",
    "constraint": "The write contradicts what the ledger holds.",
    "copy_differs": "What was copied does not verify, so nothing of it was kept. Run `quipu verify` on the original.",
    "corrupt": "The database file is damaged. Restore the latest backup.",
    "credential_unavailable": "A run asked for a secret that nobody has registered. `quipu secret add` does.",
    "deadline": "The recall was not done within its `deadline_ms`.",
    "decided_meanwhile": "Others decided on the same proposal at the same time, again and again. Try again.",
    "denied": "PostgreSQL does not let this user in, or not do that. Check user, password and rights.",
    "denied_by_rule": "A rule of the operator denies this write.",
    "did_unresolved": "The DID document cannot be had, or says nothing of what is needed.",
    "disk_full": "The disk is full. Nothing of the write was kept.",
    "embedding_mismatch": "A vector is of another model or length than this memory's. See `quipu reembed`.",
    "empty_file": "There is nothing in the file.",
    "empty_policy": "An expiry policy must name at least one condition.",
    "encrypted_archive": "The archive is encrypted. Unpack it, and bring in what is in it.",
    "encrypted_file": "The file is sealed with age. Open it with its identity or its passphrase.",
    "endpoint_answer": "The embedding endpoint answered with something that is no list of vectors, or the extraction endpoint with no list of facts.",
    "endpoint_rate_limited": "The embedding endpoint refused for now (status 429).",
    "endpoint_refused": "The embedding endpoint answered with an error status.",
    "endpoint_timeout": "The embedding endpoint did not answer in time.",
    "endpoint_unreachable": "The embedding endpoint cannot be reached. Check `QUIPU_EMBEDDER_URL`.",
    "erasure": "There is no such erasure.",
    "event_log_unavailable": "The history of the run was dropped, so it cannot be forked. See `QUIPU_OPENWOP_HISTORY_DAYS`.",
    "exists": "The file or folder to write exists already. Choose another name, or repeat with `--force`.",
    "expired": "The item of an import had expired before it came. Its clock does not restart.",
    "forbidden_address": "A notice would go to an address that only machines inside can reach. QUIPU_WEBHOOK_HOSTS names hosts that may be told all the same.",
    "foreign_form": "A form of the page was sent by another site, or is older than the session. Open the page again.",
    "from_seq": "The run's log does not go that far. Fork from a number that it has.",
    "grant": "There is no such grant, or it is not yours to see.",
    "grant_expired": "The grant has ended.",
    "grant_revoked": "The grant was taken back. Ask its owner for another one.",
    "grant_suspended": "The key that signed the grant was revoked. Its owner has to sign a new one.",
    "grant_taken": "There is another grant under this id.",
    "grant_unknown": "The token is for a grant that is not known here.",
    "held": "The write waits for a person, and the caller asked to be told so by an error.",
    "horizon": "The position to prune up to lies beyond the end of the journal.",
    "host": "The server does not answer to the host name, or to pages of the origin, that sent the request. See `QUIPU_ALLOWED_HOSTS`.",
    "packed_file": "The file is packed with zstd, xz, bzip2 or another tool that is not used here, or is a packed file that is no archive. Unpack it first; zip, tar and tar.gz are read.",
    "hostile_archive": "The archive holds a link, a name twice, or a path that leads elsewhere. Nothing of it was unpacked.",
    "idempotency_key_busy": "A request under this key is being answered. Repeat it in a moment.",
    "idempotency_key_mismatch": "The key was used for a different request. Use a new key.",
    "identity_provider": "The identity provider whose tokens are believed does not answer.",
    "imports_waiting": "Too many files are being gone through. Come back later.",
    "exports_waiting": "Too many files are being made, or wait to be fetched. Fetch those first, or come back later.",
    "import": "No such import waits here, or nothing of it does. Send the file again; nothing comes twice.",
    "insecure": "The way to the server is not safe: no TLS beyond this machine, or a certificate nobody vouches for.",
    "insecure_address": "A notice would go over an open line. Use https, or name the host in QUIPU_WEBHOOK_HOSTS.",
    "not_fetched": "The file of an export was ready and nobody fetched it in time. Ask for the export again.",
    "server_lost": "The server that worked at a task is gone. Ask for the export again; send the file of an import again, nothing comes twice.",
    "server_stopped": "The server was stopped while it worked at a task. Ask for the export again; send the file of an import again, nothing comes twice.",
    "timeout": "The work took longer than a task may. Ask for less of an export at once; an import goes on when it is committed or undone again.",
    "kept_elsewhere": "The file that was made waits at another server of the same database. Ask again; the address is still good.",
    "in_memory": "The memory that was named is in memory only and would be gone when the command ends. Name a file.",
    "invalid_trigger": "The procedure does nothing on this trigger now. `accepted` names the triggers that do something.",
    "io_error": "The disk failed while reading or writing. Nothing half-written was kept.",
    "item": "The grant has not shown such an item.",
    "ledger": "The ledger failed in a way that has no other name.",
    "malformed": "The key of an endpoint holds characters that no HTTP header can carry.",
    "media_type": "The body is of another media type or encoding than the address takes. `accepted` says which.",
    "memory_action": "A node wants a memoryAction that the engine does not know.",
    "memory_ref": "The memoryRef is not this tenant's. The answer is the same whether or not it exists.",
    "method": "The address does not take this method. `accepted` and the header `Allow` say which it takes.",
    "mirror": "There is no mirror of this name. `quipu mirror list` shows them.",
    "mirror_busy": "Another process is writing to this mirror. Try again when it is done, or stop it.",
    "mirror_failed": "A mirror or peer failed. The others answer, and what was written waits for it.",
    "mirror_in_use": "Another process has the files of this mirror open. Go through the server that has them, or stop it.",
    "mirror_late": "A mirror or peer did not answer in time. The others answer, and what was written waits for it.",
    "mirror_unreachable": "A mirror cannot be reached, or its files cannot be opened. What was written waits for it.",
    "missing_extra": "The store needs a package that is not installed. The hint names the command that installs it.",
    "missing_field": "A required field is absent.",
    "missing_file": "An exported journal lacks the file that is to be checked.",
    "missing_key": "A key is not at hand: the public key of a signature, which could then not be checked, or the key file of a ledger. Put it back.",
    "missing_records": "An export comes without its records: the chain and the signatures were checked, nothing of what the memories say.",
    "missing_scope": "The credential lacks the permission that the operation needs.",
    "model_failed": "The embedding model failed on a text.",
    "model_unloadable": "onnxruntime cannot load the embedding model. Upgrade it, or choose another embedder.",
    "name_taken": "A memory store of this name exists already.",
    "forked": "The file was open when this process was forked, and is not opened again here: open it after the fork.",
    "moved": "The file was deleted, moved or replaced while it was open. Put it back, or start again what has it open.",
    "newer_schema": "The file was written by a newer Quipu. Upgrade; the file was not touched.",
    "no_citus": "The server has nothing that spreads tables over machines. Install Citus first.",
    "no_courier": "This memory sends no notices.",
    "no_credential": "The address needs a credential, and none was sent. Send `Authorization: Bearer <token>`.",
    "no_database": "There is no such database on the PostgreSQL server. Create it first.",
    "no_embedder": "The operation needs an embedder, and `QUIPU_EMBEDDER` is `none`.",
    "no_file": "A file that was named cannot be read.",
    "no_lending": "This memory was opened without what lending needs.",
    "no_memory_here": "There is no memory at the place that was named, or none yet at the usual one. Check the path, or make one with `quipu init`.",
    "no_memory": "There was not enough memory for the database.",
    "no_memory_ref": "A node wants memory, and its agent has none.",
    "half_migrated": "Part of the database's schema is missing: it was restored or upgraded in part.",
    "old_pgvector": "The database's extension pgvector is older than 0.8. Update it.",
    "not_utf8": "The database keeps texts in another encoding than UTF8. Make one that does, and use that.",
    "old_server": "The server runs a PostgreSQL older than 14. Upgrade it.",
    "no_pgvector": "The database lacks the extension pgvector, and this user may not create it.",
    "no_scan": "The mirror can neither list what it holds nor read by id, so it cannot be verified.",
    "no_schema": "There is nothing of Quipu's in the database yet. Run `quipu db init`.",
    "no_scope": "`forget` needs ids or a filter. There is no way to forget everything at once.",
    "no_tls": "A server that listens beyond this machine needs TLS, its own or that of a proxy in front of it.",
    "node_timeout": "A node of a run took too long.",
    "node_type": "A workflow has a node of a type that the engine does not know.",
    "not_a_database": "The file is not a Quipu database. It was not touched.",
    "not_empty": "The place to copy to holds memories already. Choose an empty one.",
    "not_forgotten": "The record is live: there is nothing to restore.",
    "not_promised": "A store does not declare the capability that the request needs, so a router does not ask it. Choose one that does.",
    "not_the_writer": "A held write is taken back by who wrote it; a reviewer rejects it.",
    "notice_connection": "A notice did not arrive: nobody answered at its address.",
    "notice_refused": "A notice was answered with something other than yes.",
    "notice_timeout": "A notice was not taken in time.",
    "older_schema": "The database was made by an older Quipu. Run `quipu db migrate` when its servers are stopped or upgraded.",
    "open_to_all": "A server without authentication listens on this machine only.",
    "outcome_unknown": "The database went away during a commit. Repeat the request with the same idempotency key.",
    "overloaded": "Too many requests are at work in the server. `Retry-After` says when to come back.",
    "own_tenant": "An operator cannot suspend the tenant of the own credential.",
    "owner": "Nobody of this name has a memory here.",
    "pass": "There is no such pass of consolidation, or it changed nothing.",
    "peer_refused": "The other host refused; the hint is its own reason.",
    "peer_unreachable": "The other host does not answer, or answers in a way that is not understood.",
    "pending_approval": "The entry waits for a person, because a rule says so. It is written once somebody approves it.",
    "port_in_use": "Another program listens on the server's port.",
    "profile_unsupported": "The host does not know this projection profile; its tool manifest lists those it knows.",
    "proposal": "There is no such proposal in reach.",
    "quorum_unreachable": "`quorum_k` asks for more backends than there are, or than answered.",
    "read_only": "The file or its folder is read-only.",
    "recall_budget": "The memories this credential may be given in an hour are spent. `Retry-After` says when some come free.",
    "record": "There is no such record in reach. Forgotten and expired ones answer the same.",
    "rejected": "A reviewer said no, or the writer took the write back, while the caller waited for the decision.",
    "request": "The server did not finish the request within `QUIPU_REQUEST_TIMEOUT_S`.",
    "request_rate": "The credential sends more requests a minute than it may. `Retry-After` says how long to wait.",
    "request_replayed": "A request of this id was answered within the last ten minutes. Give each request an id of its own.",
    "required": "A member is missing.",
    "retention_expired": "Memory as the run saw it was pruned, so it cannot be forked. Pruning less keeps more.",
    "retracted": "The memory was retracted where it comes from.",
    "review_action": "Where several people must agree, they agree to what was proposed: it is not edited, merged or superseding.",
    "review_reach": "A reviewer who is limited to some stores or operations would merge into, or forget, what is beyond them; or asks for runs, which belong to no store.",
    "route": "There is nothing at this address of the server.",
    "rules": "The rules that are kept were written by a newer Quipu, and are not understood. Nothing is written until they are.",
    "run": "There is no such run in this tenant.",
    "run_active": "The run is still at work. Wait for its end, or cancel it.",
    "run_by_client": "A client does not say which run or node writes; the server knows.",
    "run_cancelling": "The run is being cancelled, so it cannot complete.",
    "run_notes": "The run has as many notes as it may have. Clear some.",
    "run_over": "The run has ended, so nothing more can happen in it. Open or fork another.",
    "run_taken": "Another process executes this run now.",
    "schema": "There is no published schema of that name.",
    "scope_mismatch": "Records of different users or stores cannot be merged.",
    "scope_missing": "The grant or its token does not allow this, such as embeddings.",
    "secret": "There is no such registered secret.",
    "secret_found": "The text holds a secret that cannot be rewritten, or the policy refuses such writes. Leave it out.",
    "secrets_changed": "The list of secrets changed while the write was on its way; it is checked again by itself.",
    "self_approval": "Nobody but the local user decides on their own write.",
    "slow_body": "The body of the request paused for too long.",
    "snapshot_unavailable": "That position can no longer be read: retention has emptied it, or there is no such run.",
    "stale_proposal": "What the proposal would change has changed since it was looked at. Look again, then decide.",
    "starting": "The server is still starting. `Retry-After` says when to come back.",
    "status_stale": "The grant can be revoked at another host, and that host does not say whether it was.",
    "store": "There is no memory store of that name.",
    "store_in_use": "The store `main` cannot be deleted.",
    "store_not_allowed": "The MCP client was given one memory store and names another.",
    "stream_mode": "There is no such stream mode, or it cannot be combined. `accepted` lists them.",
    "suggestion": "There is no such suggested rule, or no longer.",
    "task": "There is no such task in reach, or its file was fetched before or is gone.",
    "tenant": "There is no such tenant in this ledger.",
    "token": "There is no such token.",
    "token_budget_exceeded": "The budget is too small for what is to be distilled. Give more, or fewer sources.",
    "token_ended": "The token has expired or was revoked; it cannot be rotated. Create a new one.",
    "token_expired": "The token has ended. Ask for another one with the grant.",
    "index_erased": "The index of a workspace was erased, so that no distillation writes it again.",
    "erased_meanwhile": "Something was erased while a file of memories was made or sent; ask for it again.",
    "tombstone": "The item of an import was forgotten or erased here, and does not come back by an import.",
    "too_deep": "The JSON is nested deeper than 64 levels.",
    "too_large": "Something is over a limit. See the limits page.",
    "too_late": "A decision is taken back within a minute, by who made it, or not at all.",
    "too_many_connections": "PostgreSQL has no connection left. Raise `max_connections`, or lower `QUIPU_POOL_SIZE`.",
    "too_short": "A value to keep out has fewer than 8 characters: it would match by chance.",
    "type_mismatch": "A record's type cannot be changed, and records of different types cannot be merged.",
    "unknown_field": "There is no such field. `accepted` names close ones.",
    "unknown_format": "It cannot be told what the file is, or files of that kind are not read or written.",
    "unknown_host": "A webhook's host has no address.",
    "unknown_key": "The file is signed by a key that is not known here. Give the sender's key, or allow a foreign owner.",
    "unknown_member": "A member is not known, and none is passed over: it might be a restriction.",
    "unknown_operator": "There is no such filter operator.",
    "unknown_policy_key": "There is no such key in an expiry policy.",
    "unreachable": "The server or the database cannot be reached, or did not answer in time. Repeated where that is harmless.",
    "unsupported_version": "The file is of a version of its format that is not read here.",
    "usage": "The words on the command line make no sense. `--help` shows what the command takes.",
    "unsigned_end": "The last entries of an export are not signed: nothing proves who wrote them. Export again.",
    "unsupported": "The mirror's own software cannot do this; what it can do is told by `quipu mirror list`.",
    "user_not_allowed": "The credential is bound to another user.",
    "version_mismatch": "The record has changed since it was read. Read it again, then repeat.",
    "waits_for_approval": "The change waits for a person's approval; nothing has changed yet. Do not repeat it.",
    "webhook": "There is no such webhook in reach.",
    "weights_mismatch": "A weights file does not have the SHA-256 sum that the program expects. It is not used.",
    "weights_missing": "The model's weights are nowhere to be found. Recall goes by words until they are.",
    "workflow": "There is no such workflow. Fixtures exist only with `QUIPU_OPENWOP_SEAMS`.",
    "wrong_digest": "A part of the file is not what its manifest says: it was altered, or torn on its way.",
    "wrong_key": "None of the keys, nor the passphrase, opens the sealed file.",
    "wrong_signature": "The file's signature is not that of its key: it was altered.",
    "invalid_procedure": "The content is no state machine; `faults` say where it is none.",
    "wrong_type": "The field belongs to another type of memory.",
}

#: kind of fault that a verification names → what it means.
FAULTS = {
    "altered_entry": "A journal entry does not have the hash it states, or a line of an export is damaged.",
    "altered_proposal": "A held write is not what the journal says was held.",
    "altered_record": "A version does not match its digest, or an erased one has content.",
    "bad_line": "A line of a bundle's receipts or logs cannot be read.",
    "bad_signature": "A checkpoint's signature is not that of its key.",
    "beside_differs": "A link, a rank, a rule, a token, a reason or another thing beside the records is not what the journal tells of it.",
    "broken_chain": "A receipt does not name the hash of the receipt before it.",
    "broken_link": "An entry's `prev` is not the hash of the entry before it.",
    "broken_log": "A line of an item's log does not name the hash of the line before it.",
    "damaged_file": "The database finds its own files damaged.",
    "digest_differs": "A version states another digest than the journal does.",
    "emptied_record": "A version lost its content without an erasure or a pruning in the journal.",
    "gap": "A position is missing from the journal.",
    "index_differs": "Search terms or a vector do not belong to the text they stand beside. See `quipu reembed`.",
    "life_differs": "A version begins or ends at another position, or otherwise, than the journal says.",
    "missing_record": "The journal tells of a version that is gone.",
    "no_genesis": "The journal does not begin with its genesis entry.",
    "rewritten": "The journal does not pass through a position that was signed.",
    "time_runs_back": "An entry is older than the one before it.",
    "truncated": "A signed position is beyond the end of the journal: entries were cut off.",
    "unjournaled_record": "A version stands in the ledger but in no journal entry.",
    "wrong_head": "The stored head is not the end of the chain.",
}

#: functions that make a fault of the caller's from a reason: name → position of the reason.
_MAKERS = {"Fault": 1, "fault": 1, "refused": 0, "_refused_at": 1, "_not_good": 0, "_not_granted": 0}
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
