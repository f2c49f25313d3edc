"""A small HTTP server that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Scripted:
    """Answers by (method, path): a status with a JSON document, or with text and its content type."""

    answers: dict[tuple[str, str], tuple[int, Any, str]] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    url: str = ""

    def answer(
        self, method: str, path: str, document: Any, *, status: int = 200, media_type: str = "application/json"
    ) -> None:
        self.answers[method, path] = (status, document, media_type)

    def refuse(self, method: str, path: str, *, status: int, code: str, detail: str) -> None:
        problem = {"type": "about:blank", "title": "no", "status": status, "code": code, "detail": detail}
        self.answer(method, path, problem, status=status, media_type="application/problem+json")


def handler_of(scripted: Scripted) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            scripted.requests.append((self.command, self.path, json.loads(body) if body else None))
            status, document, media_type = scripted.answers.get(
                (self.command, self.path.partition("?")[0]), (404, {"code": "unscripted"}, "application/problem+json")
            )
            content = document if isinstance(document, str) else json.dumps(document)
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(content.encode())))
            self.end_headers()
            self.wfile.write(content.encode())

        do_GET = do_POST = do_DELETE = respond  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    return Handler


@pytest.fixture
def service() -> Iterator[Scripted]:
    scripted = Scripted()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(scripted))
    scripted.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield scripted
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def anchorage(service: Scripted, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line against the server; give its exit code, standard output and standard error."""
    from rag.cli.root import run

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(["--url", service.url, *arguments])
        output = capsys.readouterr()
        return int(code), output.out, output.err

    return command
