"""The parser process: reads a document from its standard input, writes the reply to its standard output.

``python -m ingest.parsing.child MEMORY_BYTES OUTPUT_BYTES PARENT_PID TABLE`` where ``TABLE`` is the table of ways as
JSON. The first frame it writes says that everything is imported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from ingest.parsing.confinement import confine, limit_processor_seconds, peak_bytes
from ingest.parsing.failures import FAILED, MEMORY, OUTPUT
from ingest.parsing.network import leave_network
from ingest.parsing.ways import Tier, Ways
from ingest.parsing.wire import PREFIX, Reply, frame, reply_frame
from rag.core.errors import ParseError, UnsupportedMediaTypeError
from rag.core.ports import Parser

Parsers = Mapping[tuple[Tier, str], Sequence[Parser]]


def main(arguments: list[str]) -> None:
    """Serve until the owner closes the input."""
    memory_bytes, output_bytes, parent = map(int, arguments[:3])
    requests, replies = _claim_streams()
    network = leave_network()
    parsers = Ways.from_json(json.loads(arguments[3])).load()
    confine(memory_bytes=memory_bytes, parent=parent)
    _write(replies, frame({"ready": True, "network": network}))
    while (request := _read(requests)) is not None:
        header, content = request
        limit_processor_seconds(float(header["seconds"]))
        _write(replies, _answer(parsers, header, content, output_bytes))


def _claim_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the owner; whatever libraries print goes nowhere."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    return requests, replies


def _read(requests: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    prefix = requests.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    header_size, body_size = PREFIX.unpack(prefix)
    return json.loads(requests.read(header_size)), requests.read(body_size)


def _write(replies: BinaryIO, content: bytes) -> None:
    replies.write(content)
    replies.flush()


def _answer(parsers: Parsers, header: Mapping[str, Any], content: bytes, output_bytes: int) -> bytes:
    media_type = header["media_type"]
    chain = parsers.get((Tier(header["tier"]), media_type), ())
    parser = next(iter(chain[header["number"] :]), None)
    if parser is None:
        return _failure("none", UnsupportedMediaTypeError.code, "documents of this type are not supported")
    name = parser.name
    try:
        document = parser.parse(content, source=header["source"], media_type=media_type)
        answer = reply_frame(Reply(parser=name, peak_bytes=peak_bytes(), document=document))
    except ParseError as error:
        return _failure(name, error.reason, error.message)
    except MemoryError:
        return _failure(name, MEMORY, "the document needs more memory than a parser may use")
    except Exception as error:  # noqa: BLE001  whatever a format's library raises ends this document, not the child
        return _failure(name, FAILED, f"the parser failed: {type(error).__name__}")
    if len(answer) > output_bytes:
        return _failure(name, OUTPUT, "the document gives more text than is allowed")
    return answer


def _failure(parser: str, code: str, message: str) -> bytes:
    return reply_frame(Reply(parser=parser, peak_bytes=peak_bytes(), code=code, message=message))


if __name__ == "__main__":
    main(sys.argv[1:])
