"""Log events through structlog, which is loaded on first use. One event per state change, none on the hot path."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from stuntbroker.broker.clock import Clock

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


WINDOW_MS: Final = 10_000
LINES_PER_WINDOW: Final = 1_000
"""Lines of one event that are written in a window. Lines beyond are counted, and `events_suppressed` logs their number."""


class _Window:
    """Lines of one event since `began_ms`."""

    __slots__ = ("began_ms", "lines")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.lines = 0


class Events:
    """Logger: `events.info("topic_created", topic=...)`. Event names are past-tense constants, facts are fields."""

    def __init__(self, level: str = "info", form: str = "text", clock: Clock | None = None) -> None:
        self.level = LEVELS[level]
        self.form = form
        self._now_ms = (clock or Clock()).monotonic_ms
        self._windows: dict[str, _Window] = {}
        self._logger: Any = None
        self._lost = 0
        """Lines that could not be written."""

    def _emit(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] < self.level or not self._count_line(event):
            return
        self._write(level, event, fields)

    def _count_line(self, event: str) -> bool:
        """Count a line of an event; return whether it is to be written."""
        now_ms = self._now_ms()
        window = self._windows.get(event)
        if window is None or now_ms - window.began_ms >= WINDOW_MS:
            self._end_window(event)
            window = self._windows[event] = _Window(now_ms)
        window.lines += 1
        return window.lines <= LINES_PER_WINDOW

    def _end_window(self, event: str) -> None:
        window = self._windows.pop(event, None)
        if window is not None and window.lines > LINES_PER_WINDOW:
            self._write("warning", "events_suppressed", {"left_out": event, "count": window.lines - LINES_PER_WINDOW})

    def log_suppressed(self, at_end: bool = False) -> None:
        """Log how many lines were left out in windows that are over; `at_end`: in all windows."""
        now_ms = self._now_ms()
        for event in [
            name for name, window in self._windows.items() if at_end or now_ms - window.began_ms >= WINDOW_MS
        ]:
            self._end_window(event)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if self._logger is None:
            self._logger = self._make()
        try:
            if self._lost:
                self._logger.warning("events_lost", count=self._lost)
                self._lost = 0
            getattr(self._logger, level)(event, **fields)
        except OSError:
            # Standard error is closed, or its disk is full. The logged change has been made, and must not fail now.
            self._lost += 1

    def _make(self) -> Any:
        import structlog

        last: Any
        escape: list[Any] = []
        if self.form == "json":
            last = structlog.processors.JSONRenderer()
        else:
            last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))
            escape = [_escape_control_characters]
        return structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                # The machine's time, also when a test has changed the broker's: lines are compared with those of other programs.
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                *escape,
                last,
            ],
        )

    def debug(self, event: str, **fields: Any) -> None:
        """Log an event for debugging."""
        self._emit("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log an event of ordinary operation."""
        self._emit("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event that a user should know of."""
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a fault of the broker, or of the machine."""
        self._emit("error", event, fields)


def _escape_control_characters(_logger: Any, _method: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Escape control characters, as clients choose the names of groups, members and transactional ids."""
    for name, value in fields.items():
        text = value if isinstance(value, str) else str(value)
        if not text.isprintable():
            kept = "\n\t" if name == "exception" else ""
            fields[name] = "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in text)
    return fields
