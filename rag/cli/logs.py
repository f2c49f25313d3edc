"""Logs of the long-running commands: one line an event on standard error."""

from __future__ import annotations

import logging
import sys

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_QUIET = ("httpx", "httpcore", "urllib3", "filelock", "procrastinate")
"""Libraries that log every call; their warnings are kept."""


class EventFormatter(logging.Formatter):
    """Time, level, logger and message, then what the event carries beside them as ``name=value``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the library's name
        """Append the extra fields to the line, before a traceback."""
        extras = [f"{name}={value}" for name, value in vars(record).items() if name not in _STANDARD]
        return " ".join([super().formatMessage(record).replace("\n", " "), *extras])


def log_to_stderr(level: str) -> None:
    """Write events of ``level`` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EventFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
