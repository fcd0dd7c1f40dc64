"""structlog, loaded when there is something to log: one event a change of state, none on the hot path."""

from __future__ import annotations

import sys
from typing import Any, Final

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Events:
    """`events.info("topic_created", topic=...)`. Names are past-tense constants, facts are fields."""

    def __init__(self, level: str = "info", form: str = "text") -> None:
        self.level = LEVELS[level]
        self.form = form
        self._logger: Any = None

    def _emit(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] < self.level:
            return
        if self._logger is None:
            self._logger = self._make()
        getattr(self._logger, level)(event, **fields)

    def _make(self) -> Any:
        import structlog

        last: Any
        if self.form == "json":
            last = structlog.processors.JSONRenderer()
        else:
            last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        return structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                last,
            ],
        )

    def debug(self, event: str, **fields: Any) -> None:
        self._emit("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._emit("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._emit("error", event, fields)
