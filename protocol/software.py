"""Name and version of this software, as clients tell them in ApiVersions and commands print them."""

from __future__ import annotations

from typing import Final

NAME: Final = "stuntbroker"
VERSION: Final = "0.1.0"
FIXTURE_CLIENT_ID: Final = "stuntbroker-fixture"
"""Client id of the fixture's broker objects; faults ignore its requests, unless they name it."""
