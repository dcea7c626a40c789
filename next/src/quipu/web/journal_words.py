"""What an entry of the journal says, in words, and of which kind it is."""

from collections.abc import Mapping

#: Kinds have a colour and a shape; whatever stands nowhere here is upkeep.
KINDS: Mapping[str, frozenset[str]] = {
    "write": frozenset({"remember", "update", "remember_many", "merge", "restore", "import", "step"}),
    "read": frozenset({"recall", "read", "view", "export"}),
    "removal": frozenset(
        {"forget", "erase", "expire", "archive", "demote", "sweep", "prune", "delete_store", "undo", "vacuum"}
    ),
    "decision": frozenset({"hold", "approve", "reject", "withdraw", "lapse", "set_rules", "deny"}),
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
    "remember_many": "remembered",
    "recall": "recalled",
    "read": "read",
    "view": "looked at",
    "forget": "forgot",
    "erase": "erased",
    "merge": "merged",
    "expire": "let expire",
    "archive": "archived",
    "demote": "demoted",
    "restore": "restored",
    "sweep": "removed what had expired:",
    "prune": "emptied old versions",
    "hold": "proposed",
    "approve": "approved",
    "reject": "rejected",
    "withdraw": "took back",
    "lapse": "gave up",
    "deny": "was refused",
    "set_rules": "changed the rules",
    "create_store": "created a store",
    "delete_store": "deleted a store",
    "export": "exported",
    "create_token": "created a token",
    "rotate_token": "rotated a token",
    "revoke_token": "revoked a token",
    "create_tenant": "created the tenant",
    "suspend_tenant": "suspended the tenant",
    "resume_tenant": "resumed the tenant",
    "add_secret": "registered a secret",
    "remove_secret": "removed a secret",
    "create_webhook": "added a webhook",
    "delete_webhook": "removed a webhook",
    "consolidate": "went through short-term memory",
    "backup": "made a backup",
}


def kind(op: str) -> str:
    """Whether it wrote, read, removed, decided, or was upkeep."""
    return next((name for name, ops in KINDS.items() if op in ops), "upkeep")


def kind_name(name: str) -> str:
    return _NAMES[name]


def verb(op: str) -> str:
    """What somebody did."""
    return _VERBS.get(op, op.replace("_", " "))
