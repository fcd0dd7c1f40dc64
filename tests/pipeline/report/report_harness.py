"""Parse a report page into elements, without a browser."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from audit_harness import World

from stuntbroker.pipeline.audit.folder import read_folder
from stuntbroker.pipeline.audit.run import audit
from stuntbroker.pipeline.report.page import described_findings, page_of
from stuntbroker.pipeline.report.reread import read_sources

VOID = {"meta", "link", "input", "br", "img", "base", "embed", "hr", "source"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The element's text without scripts, with single spaces between words."""
        kept = [each for each in self.children if isinstance(each, str) or each.tag != "script"]
        parts = [each if isinstance(each, str) else each.text for each in kept]
        return " ".join(" ".join(parts).split())

    @property
    def source(self) -> str:
        return "".join(each for each in self.children if isinstance(each, str))

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """Return the descendants with this tag and these attributes; `class_` matches any single class name."""
        actual = []
        for each in self.children:
            if isinstance(each, Element):
                if (not tag or each.tag == tag) and all(each._has(name, value) for name, value in attributes.items()):
                    actual.append(each)
                actual += each.all(tag, **attributes)
        return actual

    def single(self, tag: str = "", **attributes: str) -> Element:
        (actual,) = self.all(tag, **attributes)
        return actual

    def _has(self, name: str, value: str) -> bool:
        if name == "class_":
            return value in self.attributes.get("class", "").split()
        return self.attributes.get(name.replace("_", "-")) == value


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        created = Element(tag, {name: value or "" for name, value in attrs})
        self.stack[-1].children.append(created)
        if tag not in VOID:
            self.stack.append(created)

    def handle_endtag(self, tag: str) -> None:
        while self.stack[-1].tag != tag:
            self.stack.pop()
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(data)


@dataclass(frozen=True)
class Page:
    html: str
    root: Element

    @property
    def figures(self) -> dict[str, Any]:
        actual: dict[str, Any] = json.loads(self.root.single("script", id="figures-data").source)
        return actual

    def section(self, name: str) -> str:
        return self.root.single("section", id=name).text

    def rows(self) -> list[Element]:
        """Return the rows of the findings table."""
        tables = self.root.all("table", id="findings-table")
        return tables[0].single("tbody").all("tr") if tables else []

    def findings(self) -> list[Element]:
        return self.root.all("details", class_="finding")


def read(html: str) -> Page:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader.stack) == 1, "an element is not closed"
    return Page(html, reader.stack[0])


def page_at(folder: Path, *, keep: bool = True) -> Page:
    """Return the page of a folder. Without `keep`, the audit keeps few details, as it does for a large folder."""
    actual = read_folder(str(folder))
    created = audit(actual, keep=keep)
    findings = created.findings()
    return read(page_of(created, actual, findings, read_sources(actual, created, described_findings(findings))))


def page_of_world(world: World, *, keep: bool = True) -> Page:
    return page_at(world.folder, keep=keep)
