"""The process that keeps a folder of Milvus Lite: ``python -m stores.milvus.lite_host FOLDER SOCKET``.

The engine's own server listens on all interfaces and lets two writers of a collection run into each other; this
one listens on a socket of the file system, and makes one call at a time.
"""

from __future__ import annotations

import signal
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from milvus_lite.adapter.grpc.servicer import MilvusServicer
from milvus_lite.db import MilvusLite
from milvus_lite.engine import collection
from milvus_lite.exceptions import MilvusLiteError
from pymilvus.grpc_gen import milvus_pb2_grpc

from stores.milvus import lite_exact, lite_rows, lite_search

UNSEALED_BYTES = 1 << 19
"""Rows above this are sealed at once: a search goes through the others row by row, a millisecond each."""
_CONFIGURATION_EXIT = 2
_MESSAGE_BYTES = 256 << 20
_THREADS = 10
_GRACE_SECONDS = 5.0


class OneAtATime(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Lets no call begin before the one before it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        """See ``grpc.ServerInterceptor``."""
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        inner = handler.unary_unary

        def call(request: Any, context: Any) -> Any:
            with self._lock:
                return inner(request, context)

        return grpc.unary_unary_rpc_method_handler(
            call, request_deserializer=handler.request_deserializer, response_serializer=handler.response_serializer
        )


def serve(folder: Path, socket: Path) -> None:
    """Serve the folder until the process is asked to end; what was acknowledged is then on disk."""
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    collection.MEMTABLE_MEMORY_LIMIT = UNSEALED_BYTES
    lite_exact.install()
    lite_rows.install()
    lite_search.install()
    database = MilvusLite(str(folder))
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=_THREADS),
        interceptors=[OneAtATime()],
        options=[
            ("grpc.max_receive_message_length", _MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ],
    )
    try:
        milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(database), server)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        asked.wait()
    finally:
        server.stop(_GRACE_SECONDS).wait()
        database.close()


def main() -> None:
    """Read the command line; a folder that cannot be used ends the process with 2."""
    _, folder, socket = sys.argv
    try:
        serve(Path(folder), Path(socket))
    except (MilvusLiteError, OSError) as exc:
        sys.stderr.write(f"{type(exc).__name__}: {exc}\n")
        sys.exit(_CONFIGURATION_EXIT)


if __name__ == "__main__":
    main()
