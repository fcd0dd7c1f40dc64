"""The logger of the transactional clients."""

from __future__ import annotations

import logging
from typing import Final

log: Final = logging.getLogger("stuntbroker.client")
