"""Somebody at a browser, without a browser: asks for pages, reads them, fills in forms and sends them as they stand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

BASE = "http://127.0.0.1"
_VOID = frozenset({"input", "img", "link", "meta", "br", "hr"})


@dataclass
class Form:
    """A form as it stands on a page."""

    method: str
    action: str | None
    id: str | None = None
    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    buttons: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    boxes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def actions(self) -> set[str]:
        """What it may be asked to do."""
        return {value for name, value in self.fields if name == "action"} | {
            value for name, value, _ in self.buttons if name == "action"
        }


class Html(HTMLParser):
    """What is on a page: its texts, links and forms."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.texts: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.forms: list[Form] = []
        self._named: dict[str, Form] = {}
        self._later: list[tuple[str, dict[str, str]]] = []
        self._open: Form | None = None
        self._area: dict[str, Any] | None = None
        self._select: dict[str, Any] | None = None
        self._button: dict[str, Any] | None = None
        self._stack: list[str] = []
        self.feed(text)
        self.close()
        for form_id, attributes in self._later:
            self._add(self._named[form_id], attributes)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def title(self) -> str:
        return self.source.partition("<title>")[2].partition("</title>")[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag not in _VOID:
            self._stack.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        match tag:
            case "a":
                self.links.append(given.get("href", ""))
            case "form":
                self._open = Form(given.get("method", "get").lower(), given.get("action"), given.get("id"))
                self.forms.append(self._open)
                if self._open.id:
                    self._named[self._open.id] = self._open
            case "input":
                if "form" in given and given["form"] not in self._named:
                    self._later.append((given["form"], given))
                else:
                    form = self._named[given["form"]] if "form" in given else self._open
                    if form is not None:
                        self._add(form, given)
            case "textarea":
                self._area = {"name": given.get("name", ""), "text": "", "is_readonly": "readonly" in given}
            case "select":
                self._select = {"name": given["name"], "value": None}
            case "option" if self._select is not None:
                if self._select["value"] is None or "selected" in given:
                    self._select["value"] = given.get("value", "")
            case "button" if "disabled" not in given:
                self._button = {**given, "text": ""}
            case _:
                pass

    def _add(self, form: Form, given: Mapping[str, str]) -> None:
        kind, name = given.get("type", "text"), given.get("name", "")
        if not name or "disabled" in given or kind in ("submit", "button", "file"):
            return
        if kind in ("checkbox", "radio"):
            form.boxes.append((name, given.get("value", "on")))
            if "checked" in given:
                form.fields.append((name, given.get("value", "on")))
        else:
            form.fields.append((name, given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._stack:
            while self._stack.pop() != tag:
                pass
        if tag == "textarea" and self._area is not None:
            if self._open is not None and self._area["name"]:
                self._open.fields.append((self._area["name"], self._area["text"].removeprefix("\n")))
            self._area = None
        elif tag == "select" and self._select is not None:
            if self._open is not None:
                self._open.fields.append((self._select["name"], self._select["value"] or ""))
            self._select = None
        elif tag == "button" and self._button is not None:
            if self._open is not None:
                one = self._button
                self._open.buttons.append((one.get("name", ""), one.get("value", ""), one["text"].strip()))
            self._button = None
        elif tag == "form":
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area["text"] += data
        if self._button is not None:
            self._button["text"] += data
        if not {"script", "style", "title"} & set(self._stack):
            self.texts.append(data)

    def form(self, action: str) -> Form:
        """The form that does this."""
        found = [form for form in self.forms if form.method == "post" and action in form.actions]
        assert found, f"no form does {action}: {[sorted(form.actions) for form in self.forms]}"
        return found[0]

    def has_form(self, action: str) -> bool:
        return any(form.method == "post" and action in form.actions for form in self.forms)


@dataclass
class Seen:
    """An answer, read."""

    response: httpx.Response
    html: Html

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def text(self) -> str:
        return self.html.text

    @property
    def path(self) -> str:
        parts = urlsplit(str(self.response.url))
        return parts.path + (f"?{parts.query}" if parts.query else "")


class Person:
    """Cookies, headers and manners of a browser."""

    def __init__(self, app: Any, base: str = BASE) -> None:
        self.base = base
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=base, headers={"Accept": "text/html,*/*;q=0.8"}
        )

    async def get(self, path: str, **headers: str) -> Seen:
        given = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", **headers}
        return self._read(await self.http.get(path, headers=given, follow_redirects=True))

    async def post(
        self, path: str, fields: list[tuple[str, str]], *, follow: bool = True, **headers: str
    ) -> Seen:
        given = {"Sec-Fetch-Site": "same-origin", "Origin": self.base, **headers}
        body: dict[str, list[str]] = {}
        for name, value in fields:
            body.setdefault(name, []).append(value)
        answer = await self.http.post(path, data=body, headers=given, follow_redirects=follow)
        return self._read(answer)

    async def send(self, page: Seen, action: str, /, *, follow: bool = True, **fields: Any) -> Seen:
        """The form that does this, filled in and sent."""
        form = page.html.form(action)
        given = [(name, value) for name, value in form.fields if name not in fields]
        if not any(name == "action" for name, _ in given):
            given.append(("action", action))
        for name, value in fields.items():
            given += [(name, one) for one in (value if isinstance(value, list) else [value])]
        return await self.post(urljoin(page.path, form.action or page.path), given, follow=follow)

    async def sign_in(self, token: str, to: str = "/") -> Seen:
        page = await self.get("/signin" if to == "/" else f"/signin?next={to}")
        form = next(form for form in page.html.forms if ("token", "") in form.fields)
        fields = [(name, token if name == "token" else value) for name, value in form.fields]
        return await self.post("/signin", fields)

    def _read(self, answer: httpx.Response) -> Seen:
        return Seen(answer, Html(answer.text if "html" in answer.headers.get("content-type", "") else ""))

    async def close(self) -> None:
        await self.http.aclose()
