"""The command line. `serve` is parsed by hand: argparse alone would cost a tenth of the start."""

from __future__ import annotations

import sys
from typing import Final

USAGE: Final = """\
usage: stuntbroker COMMAND [options]

  serve   run the broker
            --host H                 where to listen (default localhost; 0.0.0.0 for everyone)
            --port P                 default 9092; 0 lets the kernel choose
            --data-dir D             keep the data there (default: a temporary folder, gone at exit)
            --durability process     acknowledged means written: it survives kill -9 (default)
                         power       acknowledged means synced to the disk: it survives a power cut
            --config FILE.toml       properties from a file
            --set KEY=VALUE          one property, by Kafka's name; may be repeated, wins over the file
            --ready-file PATH        write the address there as JSON when ready
            --log-format text|json   form of the log on standard error (default text)
            --log-level debug|info|warning|error   (default info)
          Prints `ready kafka=HOST:PORT` on standard output when it accepts requests.

  wait    exit 0 as soon as a broker answers, 1 at the time-out
            --bootstrap HOST:PORT    default localhost:9092
            --timeout SECONDS        default 30

  dump    print log files as readable lines
            FILE...

  version
"""
VERSION: Final = "0.1.0"


class UsageError(Exception):
    """The command line cannot be understood; the text says what would do."""


def run(arguments: list[str]) -> int:
    """Exit status: 0 done, 1 it failed, 2 the command line is wrong."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    try:
        if "--help" in arguments or "-h" in arguments:
            sys.stdout.write(USAGE)
            return 0
        match command:
            case "serve":
                from stuntbroker.broker.serve import serve

                return serve(options(rest, SERVE_OPTIONS))
            case "wait":
                from stuntbroker.broker.wait import wait

                return wait(options(rest, WAIT_OPTIONS))
            case "dump":
                from stuntbroker.broker.dump import dump

                return dump(rest)
            case "version" | "--version":
                sys.stdout.write(f"stuntbroker {VERSION}\n")
                return 0
        what = f"there is no command {command!r}" if command else "which command?"
        raise UsageError(f"{what}; there are serve, wait, dump, version (--help tells more)")
    except UsageError as fault:
        sys.stderr.write(f"stuntbroker: {fault}\n")
        return 2


SERVE_OPTIONS: Final = (
    "--host", "--port", "--data-dir", "--durability", "--config", "--set", "--ready-file", "--log-format", "--log-level",
)  # fmt: skip
WAIT_OPTIONS: Final = ("--bootstrap", "--timeout")


def options(arguments: list[str], known: tuple[str, ...]) -> dict[str, list[str]]:
    """`--name value` and `--name=value`, each as often as it was given."""
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(arguments):
        name, equals, value = arguments[at].partition("=")
        at += 1
        if name not in known:
            raise UsageError(f"unknown option {name!r}; there are {' '.join(known)}")
        if not equals:
            if at == len(arguments):
                raise UsageError(f"{name} needs a value")
            value = arguments[at]
            at += 1
        found.setdefault(name, []).append(value)
    return found


def single(found: dict[str, list[str]], name: str, default: str) -> str:
    values = found.get(name, [default])
    if len(values) > 1:
        raise UsageError(f"{name} was given {len(values)} times")
    return values[0]


def choice(found: dict[str, list[str]], name: str, *choices: str) -> str:
    value = single(found, name, choices[0])
    if value not in choices:
        raise UsageError(f"{name} {value!r}: it must be one of {', '.join(choices)}")
    return value


def number(found: dict[str, list[str]], name: str, default: int, low: int, high: int) -> int:
    text = single(found, name, str(default))
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise UsageError(f"{name} {text!r}: it must be a whole number from {low} to {high}")
    return int(text)
