"""Host header check of the HTTP servers, against DNS rebinding."""

from __future__ import annotations

import re
from typing import Final

_IPV6: Final = re.compile(r"\[[0-9a-f:.]+\](:[0-9]+)?$")
PRIVATE_DOMAINS: Final = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".test")


def is_private_host(host: bytes) -> bool:
    """Whether a Host header can mean this machine: an address, a name without a dot, or one of a domain that is never public.

    With DNS rebinding, another site's page makes a browser send requests here with that site's name as the Host.
    """
    name = host.decode("latin-1").strip().lower()
    if name.startswith("["):
        return bool(_IPV6.match(name))
    name = name.partition(":")[0].rstrip(".")
    return "." not in name or name.replace(".", "").isdigit() or name.endswith(PRIVATE_DOMAINS)
