"""Parses a scenario file of tests/coordinator/scenarios into commands, each with its own expected lines.

tests/coordinator/txn_scenarios.py describes the language. A block of the file has the lines of all its commands together.
Here they are split: a request gets all lines up to its `reply`, other commands up to the line in `ENDS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from txn_scenarios import RULE

ENDS: Final = {
    "init": "reply ", "add": "reply ", "verify": "reply ", "end": "reply ", "marker": "reply ",
    "timeout": r"nothing|markers held|append COMPLETE_ABORT",
    "expire": "nothing|append tombstone",
    "release": "append COMPLETE_",
    "restart": "read ",
}  # fmt: skip
"""Command -> pattern of its last line. Other commands have no lines."""
INSIDE: Final = re.compile("again|sealed ")
"""Lines of internal effects, which clients cannot see."""
OUR_OWN: Final = re.compile(r" last=\d+")
"""Fields that Kafka does not write to its log."""
NOT_IN_VERSION_0: Final = re.compile(r" (last|next|previous)=\d+")
"""Fields that a log readable by Kafka before 4.0 does not have."""
PARTITIONS: Final = re.compile(r" (orders|audit)-(\d+)")
ABSENT_FROM: Final = 9
"""Partitions with this index or a higher one do not exist."""
NOTHING: Final = re.compile(r"$.")


@dataclass(slots=True)
class Command:
    text: str
    transcript: list[str]

    @property
    def times(self) -> int:
        """How often the command is executed. Only the last execution has lines."""
        words = self.text.split()
        return int(words[0]) if words[1:2] == ["times"] else 1

    @property
    def words(self) -> list[str]:
        words = self.text.split()
        return words[2:] if words[1:2] == ["times"] else words

    @property
    def facts(self) -> dict[str, str]:
        return {name: value for name, _, value in (word.partition("=") for word in self.words) if value}


@dataclass(slots=True)
class Script:
    path: Path
    commands: list[Command]
    facts: dict[str, str] = field(default_factory=dict)
    """Settings of the `cluster` command."""
    only: dict[str, str] = field(default_factory=dict)
    """The only player of this script ("stuntbroker", "the wire") -> the reason."""
    unexplained: list[str] = field(default_factory=list)
    """Lines that belong to no command."""

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def transaction_version(self) -> int:
        return int(self.facts.get("tv", 2))

    @property
    def first_epoch(self) -> int:
        return int(self.facts.get("epoch", 0))

    def has(self, word: str) -> bool:
        return any(word in command.words for command in self.commands)

    def topics(self) -> dict[str, int]:
        """Topics that must exist -> number of partitions that the script needs."""
        needed = {"orders": 1}
        for command in self.commands:
            for topic, index in PARTITIONS.findall(command.text):
                if int(index) < ABSENT_FROM:
                    needed[topic] = max(needed.get(topic, 0), int(index) + 1)
        return needed

    @property
    def not_for_kafka(self) -> str:
        """Why the script cannot be played against Kafka; empty if it can."""
        if "profile" in self.facts:
            return f"profile {self.facts['profile']}"
        if self.has("2pc") or self.has("keep"):
            return "two-phase commit (KIP-939) is not in Kafka"
        return self.only.get("stuntbroker", "")

    def page(self, of_kafka: bool = False) -> list[str]:
        """The expected transcript, line by line, including the commands."""
        hidden = OUR_OWN if of_kafka else NOTHING
        if of_kafka and not self.transaction_version:
            hidden = NOT_IN_VERSION_0
        return [
            line
            for command in self.commands
            for line in (
                f"> {command.text}",
                *(hidden.sub("", messages) for messages in command.transcript if not INSIDE.match(messages)),
            )
        ] + self.unexplained


def read_script(path: Path) -> Script:
    text = path.read_text(encoding="utf-8")
    script = Script(path, [])
    for block in text.strip().split("\n\n"):
        commands, _, messages = block.partition(f"\n{RULE}")
        lines = iter(messages.strip().splitlines())
        for line in commands.splitlines():
            if line.startswith("#"):
                continue
            if line.startswith("only "):
                who, _, why = line.removeprefix("only ").partition(": ")
                script.only[who] = why
                continue
            script.commands.append(Command(line, list(_messages_after(line, lines))))
            if line.startswith("cluster "):
                script.facts |= script.commands.pop().facts
        script.unexplained += lines
    return script


def _messages_after(line: str, messages: Iterator[str]) -> Iterator[str]:
    end = ENDS.get(Command(line, []).words[0])
    if end is not None:
        for each in messages:
            yield each
            if re.match(end, each):
                return


def with_page(text: str, page: list[str]) -> str:
    """The same file with the lines of this transcript."""
    messages_by_line: list[list[str]] = []
    for line in page:
        if line.startswith("> "):
            messages_by_line.append([])
        else:
            messages_by_line[-1].append(line)
    heard = iter(messages_by_line)
    blocks = []
    for block in text.strip().split("\n\n"):
        commands = block.partition(f"\n{RULE}")[0]
        request = [line for line in commands.splitlines() if not line.startswith(("#", "only ", "cluster "))]
        messages = [line for _ in request for line in next(heard)]
        blocks.append("\n".join([commands, RULE, *messages]))
    return "\n\n".join(blocks) + "\n"
