"""Loads the module of a command when the command is run, or when its options are asked for."""

from __future__ import annotations

from typing import Any


def module_of(command: str) -> Any:
    """Return the module of a command, with its USAGE and the options for completion.

    For the commands in `commands/`, and `audit`: the options of `serve`, `wait` and `dump` are in `arguments`, their help is
    in `help`.
    """
    from importlib import import_module  # Nothing that `serve` waits for.

    return import_module(f"stuntbroker.cli.{'data_folder.audit' if command == 'audit' else f'commands.{command}'}")
