"""Log lines of the long-running commands."""

from __future__ import annotations

import logging

from rag.cli.logs import EventFormatter


def test_an_event_is_one_line_with_its_fields() -> None:
    record = logging.makeLogRecord(
        {"name": "rag.x", "levelname": "INFO", "msg": "published\na document", "action": "publish", "chunks": 3}
    )

    line = EventFormatter().format(record)

    assert line.endswith("INFO    rag.x: published a document action=publish chunks=3")
    assert "\n" not in line
