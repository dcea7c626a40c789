"""The rules in force: those of the file, the tenant's own, and those that ship; kept, shown and replaced."""

import json
import logging
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from quipu.errors import ConflictError, Fault, InvalidError, UnverifiableError
from quipu.governance.model import (
    RULE_LISTS,
    Effect,
    GetRulesRequest,
    Rule,
    RuleDocument,
    RuleList,
    RulesResponse,
    SetRulesRequest,
)
from quipu.governance.rules import SHIPPED
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.ledger import Kept, Ledger
from quipu.ledger.reader import Reader
from quipu.memory.pipeline import Redactor
from quipu.model.journal import Draft
from quipu.operation import Clock, Context, invalid

_log = logging.getLogger("quipu.governance")
_OWN = "own"


class RuleFile:
    """A file that does not load stops the start; later it leaves the last good rules, so it never opens the gate."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path.expanduser(), clock
        self._stamp = self._stamped()
        self._rules = _rules_of(self._path)
        #: Counts how often its rules have changed since the start.
        self.edition = 0
        #: Since when it cannot be understood; None while it can.
        self.broken_since: int | None = None

    def rules(self) -> tuple[Rule, ...]:
        """What it says now, or said last when it could be understood."""
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            self._read()
        return self._rules

    def _read(self) -> None:
        try:
            rules = _rules_of(self._path)
        except InvalidError as error:
            self.broken_since = self._clock() if self.broken_since is None else self.broken_since
            _log.error("The rules file does not load, its last good rules stay in force: %s", error.message)
            return
        self.broken_since = None
        if rules != self._rules:
            self._rules = rules
            self.edition += 1
            _log.info("The rules file has changed: %d rules are in force.", len(rules))

    def _stamped(self) -> tuple[int, int, int] | None:
        """Which file it is, how long, and when it was written: shows a change without reading it."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def _rules_of(path: Path) -> tuple[Rule, ...]:
    """The rules of a file."""
    return RuleDocument.parse(document_of(path)).rules


def document_of(path: Path) -> dict[str, Any]:
    """What a file of rules says, TOML or JSON: `{"rules": [...]}`."""
    try:
        text = path.read_text("utf-8")
        document: Any = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidError(
            f"The rules file {path} cannot be read: {error.strerror}.",
            reason="no_file",
            hint="The server reads the file that QUIPU_RULES names.",
        ) from error
    except (ValueError, RecursionError) as error:  # the latter where it is nested without end
        raise InvalidError(
            f"The rules file {path} is neither TOML nor JSON: {error}",
            reason="bad_setting",
            hint="A name that ends in .json is read as JSON, any other as TOML.",
        ) from error
    if not isinstance(document, dict):
        raise invalid([Fault("", "bad_value", 'an object such as {"rules": [...]}')])
    return cast("dict[str, Any]", document)


@dataclass(frozen=True, slots=True)
class _Known:
    """A tenant's own rules as of a position of secrets and rules."""

    guarded: int
    own: tuple[Rule, ...]


class Rules:
    """One list for each tenant, read again when its position has moved."""

    def __init__(
        self,
        ledger: Ledger,
        redactor: Redactor,
        clock: Clock,
        *,
        file: RuleFile | None = None,
        has_shipped: bool = True,
        default: Effect = "allow",
    ) -> None:
        self._ledger, self._redactor, self._clock, self._file = ledger, redactor, clock, file
        self.shipped = SHIPPED if has_shipped else ()
        #: What becomes of a write that no rule is about.
        self.default: Effect = default
        self._known: dict[str, _Known] = {}
        #: The edition of the file that each tenant's journal names.
        self._journaled: dict[str, int] = {}

    async def in_force(
        self, tenant: str, checked_at: int, *, own: tuple[Rule, ...] | None = None
    ) -> tuple[Rule, ...]:
        """All that decide, in their order, of this position or a later one.

        A write that was judged by them commits with that position, and is refused when they have changed since. `own`
        is tried in place of the tenant's own.
        """
        known = self._known.get(tenant)
        if known is None or known.guarded < checked_at:
            known = self._known[tenant] = await self._ledger.read(tenant, _read)
        return (*await self._of_file(tenant), *(known.own if own is None else own), *self.shipped)

    async def _of_file(self, tenant: str) -> tuple[Rule, ...]:
        """The file's; the journal names those that decide from here on, where they have changed since the start."""
        if self._file is None:
            return ()
        rules = self._file.rules()
        before = self._journaled.get(tenant, 0)
        if before != self._file.edition:
            self._journaled[tenant] = self._file.edition
            draft = self._draft("system", rules, file=True)
            try:
                await self._ledger.commit(Commit(tenant=tenant, draft=draft))
            except BaseException:
                self._journaled[tenant] = before  # the next write says it
                raise
        return rules

    def _draft(self, actor: str, rules: Sequence[Rule], **more: Any) -> Draft:
        detail: dict[str, Any] = {"rules": [rule.id for rule in rules], **more}
        return Draft(op="set_rules", actor=actor, at=self._clock(), detail=detail)

    # -- looking and changing -----------------------------------------------------------------------------------------

    async def get(self, ctx: Context, request: GetRulesRequest) -> RulesResponse:
        kept = await self._ledger.kept(RULE_LISTS, ctx.tenant, _OWN)
        return RulesResponse(
            rules=own_rules(kept),
            of_file=() if self._file is None else self._file.rules(),
            shipped=self.shipped,
            default=self.default,
            etag=_etag(kept),
            file_broken_since=None if self._file is None else self._file.broken_since,
        )

    async def set(self, ctx: Context, request: SetRulesRequest) -> RulesResponse:
        """Replace the tenant's own. Writes that were judged by the former ones are judged again."""
        guard = await self._redactor.guard(ctx.tenant, None)
        clean = guard.clean(request)
        taken = {rule.id for rule in (() if self._file is None else self._file.rules())}
        faults = [
            Fault(f"/rules/{place}/id", "bad_value", "another name: a rule of the server's file has this one")
            for place, rule in enumerate(clean.rules)
            if rule.id in taken
        ]
        if faults:
            raise invalid(faults)
        await self.keep(ctx, clean.rules, guard.checked_at, expects=_expected(request.if_match))
        return await self.get(ctx, GetRulesRequest())

    async def keep(
        self, ctx: Context, rules: Sequence[Rule], checked_at: int, *, expects: int | None = None
    ) -> None:
        """Write the tenant's own. `expects`: the position of those that they replace; None: whatever is there."""
        bodies = tuple(
            rule.model_dump(mode="json", exclude_none=True, exclude_defaults=True) for rule in rules
        )
        value = RuleList(id=_OWN, rules=bodies, set_at=self._clock(), set_by=ctx.principal.name)
        commit = Commit(
            tenant=ctx.tenant,
            draft=self._draft(ctx.principal.name, rules),
            changes=(Keep(RULE_LISTS, value, expects),),
        )
        try:
            (done,) = await self._ledger.commit(commit, checked_at=checked_at)
        except ConflictError as conflict:
            if conflict.reason != "row_changed":
                raise
            raise ConflictError(
                "The rules were changed by somebody else.",
                reason="rules_changed",
                hint="Read them again, and repeat the change.",
            ) from conflict
        ctx.facts.seq = done.seq


def own_rules(kept: Kept[RuleList] | None) -> tuple[Rule, ...]:
    """A tenant's own rules as they were kept."""
    try:
        return () if kept is None else tuple(Rule.model_validate(body) for body in kept.value.rules)
    except ValueError as error:
        # Better no write than one that nobody judged.
        raise UnverifiableError(
            "The rules that are kept are not understood, so nothing is written or recalled.",
            reason="rules",
            hint="Set them again with `quipu rules set`.",
        ) from error


def _read(reader: Reader) -> _Known:
    return _Known(reader.head().guarded, own_rules(reader.kept(RULE_LISTS, _OWN)))


def _etag(kept: Kept[RuleList] | None) -> str:
    return str(0 if kept is None else kept.seq)


def _expected(if_match: str | None) -> int | None:
    if if_match is None:
        return None
    return int(if_match) if if_match.isascii() and if_match.isdigit() else -1
