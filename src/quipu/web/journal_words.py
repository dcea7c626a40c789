"""What an entry of the journal says, in words, and of which kind it is."""

from collections import Counter
from collections.abc import Mapping, Sequence

from quipu.web.drawing import Column, columns
from quipu.web.text import when

#: Kinds have a colour and a shape; whatever stands nowhere here is upkeep.
KINDS: Mapping[str, frozenset[str]] = {
    "write": frozenset({"remember", "update", "merge", "restore", "import"}),
    "read": frozenset({"recall", "read", "view", "export", "disclose"}),
    "removal": frozenset(
        {"forget", "erase", "expire", "archive", "demote", "sweep", "prune", "delete_store"}
    ),
    "decision": frozenset(
        {"hold", "approve", "agree", "reject", "deny", "set_rules", "dismiss_rule", "grant", "revoke"}
    ),
}
_NAMES: Mapping[str, str] = {
    "write": "written",
    "read": "read",
    "removal": "removed",
    "decision": "held and decided",
    "upkeep": "upkeep",
}
#: As a sentence goes on after the name of who did it.
_VERBS: Mapping[str, str] = {
    "remember": "remembered",
    "update": "changed",
    "merge": "merged",
    "restore": "restored",
    "import": "imported",
    "recall": "recalled",
    "read": "read",
    "view": "looked at",
    "export": "exported",
    "forget": "forgot",
    "erase": "erased",
    "expire": "let expire",
    "archive": "archived",
    "demote": "demoted",
    "sweep": "removed what had expired:",
    "prune": "emptied old versions of",
    "delete_store": "deleted a store",
    "hold": "proposed",
    "approve": "approved",
    "agree": "agreed",
    "reject": "rejected",
    "deny": "was refused",
    "set_rules": "changed the rules",
    "dismiss_rule": "dismissed a suggested rule",
    "create_store": "created a store",
    "create_tenant": "opened the tenant",
    "suspend_tenant": "suspended the tenant",
    "resume_tenant": "resumed the tenant",
    "create_token": "created a token",
    "rotate_token": "rotated a token",
    "revoke_token": "revoked a token",
    "add_secret": "registered a secret",
    "remove_secret": "removed a secret",
    "rotate_key": "took a new signing key",
    "grant": "shared a part of memory",
    "revoke": "took back what was shared",
    "disclose": "was shown what is shared:",
    "cascade": "told of what was erased",
    "incident": "reported that something went wrong",
    "borrow": "asked another server for what it shares",
    "drop_borrowed": "dropped what another server shared",
    "create_webhook": "added a webhook",
    "delete_webhook": "removed a webhook",
    "consolidate": "went through short-term memory",
    "checkpoint": "signed the journal",
    "anchor": "published a signed position",
    "backup": "made a backup",
    "reindex": "made the search index anew",
}


def kind(op: str) -> str:
    """Whether it wrote, read, removed, decided, or was upkeep."""
    return next((name for name, ops in KINDS.items() if op in ops), "upkeep")


def verb(op: str) -> str:
    """What somebody did."""
    return _VERBS.get(op, op.replace("_", " "))


def ops() -> list[tuple[str, list[tuple[str, str]]]]:
    """Every operation that an entry can have, with its words, by kind."""
    return [
        (said, [(op, verb(op).rstrip(":")) for op in _VERBS if kind(op) == name])
        for name, said in _NAMES.items()
    ]


def activity_columns(days: Sequence[tuple[int, Mapping[str, int]]]) -> tuple[Column, ...]:
    """How busy each day was, as columns with a box for each kind."""
    return columns([(when(day).partition(",")[0], _by_kind(counts)) for day, counts in days])


def activity_legend(counts: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """Kind, its words, how many."""
    found = _by_kind(counts)
    return [(name, said, found[name]) for name, said in _NAMES.items() if found[name]]


def _by_kind(counts: Mapping[str, int]) -> Mapping[str, int]:
    found = Counter(dict.fromkeys(_NAMES, 0))
    for op, count in counts.items():
        found[kind(op)] += count
    return found
