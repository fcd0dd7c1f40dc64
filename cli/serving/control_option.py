"""`serve --control`, `--control-token` and `--plan`: address and token of the control API, and the plan active from the start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from stuntbroker.cli.arguments import UsageError, single
from stuntbroker.protocol.addresses import parse_address

if TYPE_CHECKING:
    from stuntbroker.control.plan import Plan

TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]*")


class ControlAddress(NamedTuple):
    """Address and token of the control API."""

    host: str
    port: int
    token: str
    """Token that requests have to carry; empty if none is required."""
    is_token_generated: bool
    """Whether the token was generated, and has to be printed."""
    plan: Plan | None
    """Faults and stops that are active from the ready line on."""


def control_address(given: dict[str, list[str]]) -> ControlAddress | None:
    """Return the control options; None without --control. Raises UsageError."""
    token, plan = single(given, "--control-token", ""), single(given, "--plan", "")
    if "--control" not in given:
        if token or plan:
            option = "--control-token" if token else "--plan"
            raise UsageError(f"{option} has no effect without --control")
        return None
    from stuntbroker.control.server import TOKEN_BYTES, is_loopback

    text = single(given, "--control", "") or "127.0.0.1:0"
    try:
        address = parse_address(f"127.0.0.1:{text}" if text.isdigit() else text)
    except ValueError as fault:
        raise UsageError(f"--control: {fault}") from None
    if not TOKEN.fullmatch(token):
        raise UsageError(
            "--control-token: it may have only letters, digits and ._~+/-, because it is sent in a header and a cookie"
        )
    is_token_generated = not token and not is_loopback(address.host)
    if is_token_generated:
        from stuntbroker.broker.random_source import RandomSource

        token = RandomSource().random_bytes(TOKEN_BYTES).hex()
    return ControlAddress(address.host, address.port, token, is_token_generated, _plan(plan) if plan else None)


def _plan(name: str) -> Plan:
    """Return the built-in plan with this name, or the plan in this JSON or YAML file. Raises UsageError."""
    from stuntbroker.control.documents import read_plan_file
    from stuntbroker.control.plan import PLANS, read_plan
    from stuntbroker.control.rules.faults import FaultError

    try:
        if name in PLANS:
            return read_plan(PLANS[name])
        return read_plan(read_plan_file(name))
    except OSError as fault:
        known = ", ".join(PLANS)
        raise UsageError(f"--plan {name!r}: {fault.strerror}; give a JSON or YAML file, or one of {known}") from None
    except FaultError as fault:
        raise UsageError(f"--plan {name!r}: {fault}; {fault.hint}") from None
    except ValueError as fault:
        raise UsageError(f"--plan {name!r} cannot be read: {fault}") from None
