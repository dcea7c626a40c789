"""Times, sizes, counts, texts and entries of the journal as a person reads them. Control and reordering characters are shown
as text."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
#: Characters that reorder, hide or move what stands beside them, or are hidden themselves: a person sees nothing of
#: them, a model reads them. They are named instead of obeyed; letters among them are spelt out. Three flags, of England,
#: Scotland and Wales, are made of such letters.
_CONTROLS = re.compile(
    "(?P<flag>\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f)"
    "|(?P<letters>[\U000e0000-\U000e007f]+)"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]"
    "|(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_BRIEF = 280
#: Words of a question that are not worth marking in an answer.
_COMMON = re.compile(
    "and|are|but|can|did|does|for|from|had|has|have|may|her|him|his|how|its|not|our|she|that|the|their|them|there|they|this"
    "|was|were|what|when|where|which|who|why|will|with|would|you|your"
)


def when(moment: int | None) -> str:
    """A moment in UTC, to the minute."""
    found = _moment(moment)
    return "never" if found is None else f"{found.day} {found:%b %Y, %H:%M}"


def iso(moment: int | None) -> str:
    """A moment as machines write it."""
    found = _moment(moment)
    return "" if found is None else found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment(moment: int | None) -> datetime | None:
    try:
        return None if moment is None else datetime.fromtimestamp(moment / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return None


def day(typed: str) -> str:
    """What a field for a day can hold of what was typed into the address: a browser complains of anything else."""
    return typed if re.fullmatch(r"\d{4}-\d\d-\d\d", typed) else ""


def minute(typed: str) -> str:
    """What a field for a day and a time can hold of what was typed into the address."""
    return typed if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?", typed) else ""


def ago(moment: int | None, now: int) -> str:
    """How long before now, or, where that says little, the day."""
    if moment is None:
        return "never"
    passed = now - moment
    if passed < -MINUTE:
        return when(moment)
    if passed < MINUTE:
        return "just now"
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if passed >= unit:
            number = passed // unit
            return counted(number, name) + " ago" if number < 60 else when(moment).partition(",")[0]
    return "just now"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(count: float) -> str:
    """Bytes as a person says them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def span(milliseconds: int) -> str:
    """A length of time in its largest unit."""
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1000, "second")):
        if milliseconds >= unit:
            return counted(round(milliseconds / unit), name)
    return f"{milliseconds} ms"


def text_of(content: Any) -> str:
    """A memory as text: itself, or the machine of a procedure as JSON."""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)


def brief(content: Any, most: int = _BRIEF) -> str:
    """On one line, cut where it is long."""
    # Only a little more than what is shown is looked at: a memory may have a million characters.
    line = " ".join(text_of(content)[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def said(item: Any) -> str:
    """What a memory says, on one line: the name of a procedure instead of its machine."""
    content = item.content
    if isinstance(content, dict) and isinstance(content.get("name"), str):  # pyright: ignore[reportUnknownMemberType]  JSON
        content = content["name"]  # pyright: ignore[reportUnknownVariableType]  JSON
    return brief(content)


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def plain(text: Any) -> Markup:
    """Text to show: escaped, and with its control characters named."""
    return Markup(_CONTROLS.sub(_named, str(escape(str(text).replace("\r\n", "\n")))))  # noqa: S704  escaped just here


def _named(match: re.Match[str]) -> str:
    if match["flag"]:
        return match["flag"]
    if match["letters"] is None:
        return f'<span class="control" title="a control character">U+{ord(match.group()):04X}</span>'
    spelt = "".join(
        chr(ord(one) & 0x7F) if 0x20 <= ord(one) & 0x7F < 0x7F else "·" for one in match["letters"]
    )
    return f'<span class="control" title="letters that are not seen">unseen: {escape(spelt)}</span>'


def bare(text: Any) -> str:
    """Text for where no markup can stand: without its control characters."""
    return _CONTROLS.sub(lambda match: match["flag"] or "", str(text))


def marked(text: str, query: str) -> Markup:
    """Text to show, with the words of a query marked."""
    wanted = {_stem(word) for word in re.findall(r"\w{3,}", query.lower()) if not _COMMON.fullmatch(word)}
    if not wanted:
        return plain(text)
    pieces = re.split(r"(\w+)", text)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(plain(piece))
        if len(piece) > 2 and _stem(piece.lower()) in wanted
        else plain(piece)
        for piece in pieces
        if piece
    )


def _stem(word: str) -> str:
    """Enough of a word to know its other forms by."""
    for ending in ("ingly", "ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def percent(share: float) -> str:
    return f"{round(100 * share)} %"


def relevance_word(share: float) -> str:
    """How well a memory fits a question, in a word."""
    return "strong" if share >= 0.6 else "fair" if share >= 0.35 else "weak"


def dict_without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields but for these."""
    return {name: value for name, value in fields.items() if name not in names}


def with_field(fields: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The fields with another one."""
    return {**fields, name: value}


def part(name: object) -> str:
    """An id as one part of an address. Ids may come from elsewhere: nothing in them is taken for a slash."""
    return quote(str(name), safe="")


def listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def address(path: str, /, **query: Any) -> str:
    """A path with the fields that have a value; a list is a field that occurs several times."""
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        values = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)
        pairs += [(name, str(one)) for one in values if one not in (None, "", False)]
    return f"{path}?{urlencode(pairs)}" if pairs else path


FILTERS: Mapping[str, Any] = {
    "when": when,
    "iso": iso,
    "day": day,
    "minute": minute,
    "ago": ago,
    "size": size,
    "span": span,
    "plain": plain,
    "bare": bare,
    "brief": brief,
    "said": said,
    "percent": percent,
    "as_json": as_json,
    "listed": listed,
    "part": part,
    "dict_without": dict_without,
    "with_field": with_field,
    "text_of": text_of,
    "relevance_word": relevance_word,
}


# -- entries of the journal ------------------------------------------------------------------------------------------

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
KIND_NAMES: Mapping[str, str] = {
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
    "cascade": "notified of what was erased",
    "incident": "reported that something went wrong",
    "borrow": "asked another server for what it shares",
    "drop_borrowed": "dropped what another server shared",
    "open_run": "began a run",
    "record_node": "noted a step of a run",
    "start_run": "began a run",
    "resolve_secret": "asked for a secret in a run",
    "drop_run_history": "dropped the history of a run",
    "end_run": "ended a run",
    "finish_run": "finished a run",
    "cancel_run": "cancelled a run",
    "fork_run": "forked a run",
    "drop_mirror": "dropped a mirror",
    "mint_memory_ref": "named a memory for a run",
    "run_notes": "wrote notes of a run",
    "commit_import": "brought in an import",
    "undo_import": "undid an import",
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
        for name, said in KIND_NAMES.items()
    ]
