"""The programs in Java, Go and JavaScript that run scenarios or commands, built where their sources have changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kit.brokers.kafka_broker import class_path, java_tool, kafka_java
from tests.kit.programs.go_tool import MODULE, go_tool
from tests.kit.programs.scenarios import build, build_folder

JAVA_SOURCES = sorted((Path(__file__).parents[2] / "peers" / "java").glob("*.java"))
GO_SOURCES = sorted([*MODULE.glob("*.go"), *MODULE.glob("go.*")])
NODE_FOLDER = Path(__file__).parents[2] / "peers" / "node"


def java_program() -> list[str]:
    """The command that runs the scenarios with Kafka's own client. Skips the test where there is no JDK."""
    return java_command("Scenarios")


def java_command(program: str, *options: str) -> list[str]:
    """The command that runs a program of the folder `java`; `options` are those of the virtual machine."""
    compiler = [java_tool("javac"), "-cp", class_path(), "-d", "{out}", "-proc:none", "-Xlint:all", "-Werror"]
    sources = map(str, JAVA_SOURCES)
    classes = build(build_folder("java", JAVA_SOURCES), [*compiler, *sources], cwd=JAVA_SOURCES[0].parent)
    *run, jars = kafka_java(*options)
    return [*run, f"{jars}:{classes}", program]


def go_program() -> list[str]:
    """The command that runs the scenarios with franz-go. Skips the test where there is no Go."""
    # No options of the compiler: what it makes serves the program of the README too.
    compiler = [go_tool(), "build", "-mod=readonly", "-ldflags=-w", "-o", "{out}", "."]
    return [str(build(build_folder("go", GO_SOURCES), compiler, cwd=MODULE))]


def node_program() -> list[str]:
    """The command that carries out commands with KafkaJS. Skips the test where there is no Node."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs Node.js: there is no node, or no npm")
    package = NODE_FOLDER / "package.json"
    install = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--install-links", "--prefix", "{out}"]
    installed = build(build_folder("node", [package]), [*install, str(NODE_FOLDER)], cwd=NODE_FOLDER)
    return [node, str(NODE_FOLDER / "commands.js"), str(installed)]
