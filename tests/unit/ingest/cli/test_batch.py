"""Uploading and following a batch, against a scripted transport and through the command."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingest.cli.batch import Batch, Row, Upload
from ingest.cli.discovery import Found
from rag.cli.client import Service, open_service
from rag.cli.root import run

Answer = Callable[[httpx.Request], httpx.Response]


def document(source: str, **changes: Any) -> dict[str, Any]:
    return {"id": f"id-{source}", "source": source, "state": "published", "quality": "full", "chunks": 1, **changes}


def source_of(request: httpx.Request) -> str:
    found = re.search(rb'name="source"\r\n\r\n(.*?)\r\n', request.content, re.DOTALL)
    assert found
    return found.group(1).decode()


def files(folder: Path, *names: str) -> list[Found]:
    for name in names:
        (folder / name).write_text(name, encoding="utf-8")
    return [Found(source=name, path=folder / name) for name in names]


@asynccontextmanager
async def batch_on(answer: Answer, **options: Any) -> AsyncIterator[Batch]:
    async def respond(request: httpx.Request) -> httpx.Response:
        await request.aread()
        return answer(request)

    upload = Upload(collection="n", metadata={"year": 2024}, concurrency=2)
    async with open_service("http://test", transport=httpx.MockTransport(respond)) as service:
        assert isinstance(service, Service)
        yield Batch(service, upload, **options)


def states(batch: Batch) -> dict[str, tuple[str, str | None]]:
    return {row.source: (str(row.state), row.code) for row in batch.rows.values()}


async def test_every_file_is_uploaded_with_its_source_and_the_metadata(tmp_path: Path) -> None:
    bodies = list[bytes]()

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(202, json={"documents": [document(source_of(request))]})

    async with batch_on(answer) as batch:
        await batch.upload_all(files(tmp_path, "指南.txt", "b.txt", "c.txt"))

    assert states(batch) == dict.fromkeys(("指南.txt", "b.txt", "c.txt"), ("published", None))
    assert all(b'{"year": 2024}' in body for body in bodies)


async def test_a_full_backlog_is_waited_out_however_long_it_takes_to_shrink(tmp_path: Path) -> None:
    refusals, shown = [1], list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        if refusals:
            refusals.pop()
            return httpx.Response(429, json={"code": "backlog_full", "detail": "wait"}, headers={"Retry-After": "0"})
        return httpx.Response(202, json={"documents": [document(source_of(request))]})

    async with batch_on(answer, patience=0.0, show=shown.append) as batch:
        await batch.upload_all(files(tmp_path, "a.txt"))

    assert states(batch) == {"a.txt": ("published", None)}
    assert any("takes more when" in line for line in shown)


async def test_a_backlog_that_never_shrinks_fails_the_file_with_its_code(tmp_path: Path) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, json={"code": "backlog_full", "detail": "wait"})

    async with batch_on(answer, backlog_patience=0.0) as batch:
        await batch.upload_all(files(tmp_path, "a.txt"))

    assert states(batch) == {"a.txt": ("failed", "backlog_full")}


async def test_one_refused_file_does_not_stop_the_others(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        source = source_of(request)
        if source == "a.exe":
            return httpx.Response(415, json={"code": "unsupported_media_type", "detail": "no"})
        if source == "b.txt":
            return httpx.Response(422, json={"code": "invalid_request", "detail": "empty"})
        return httpx.Response(202, json={"documents": [document(source)]})

    async with batch_on(answer) as batch:
        await batch.upload_all(files(tmp_path, "a.exe", "b.txt", "c.txt"))

    assert states(batch) == {
        "a.exe": ("unsupported", "unsupported_media_type"),
        "b.txt": ("failed", "invalid_request"),
        "c.txt": ("published", None),
    }


async def test_a_file_that_vanished_is_one_failed_row(tmp_path: Path) -> None:
    found = files(tmp_path, "a.txt", "b.txt")
    (tmp_path / "a.txt").unlink()

    async with batch_on(lambda r: httpx.Response(202, json={"documents": [document(source_of(r))]})) as batch:
        await batch.upload_all(found)

    assert states(batch) == {"a.txt": ("failed", "unreadable"), "b.txt": ("published", None)}


async def test_a_broken_connection_and_a_busy_service_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.cli.batch._FIRST_RETRY", 0.001)
    script: list[Any] = [httpx.ConnectError("refused"), httpx.Response(503, json={"code": "capacity"}), None]

    def answer(request: httpx.Request) -> httpx.Response:
        step = script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step or httpx.Response(202, json={"documents": [document("a.txt")]})

    async with batch_on(answer) as batch:
        await batch.upload_all(files(tmp_path, "a.txt"))

    assert states(batch) == {"a.txt": ("published", None)}


async def test_when_the_service_stays_away_each_file_fails_at_its_first_try(tmp_path: Path) -> None:
    tries = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal tries
        tries += 1
        raise httpx.ConnectError("refused")

    async with batch_on(answer, patience=0.0) as batch:
        await batch.upload_all(files(tmp_path, "a.txt", "b.txt"))

    assert states(batch) == {"a.txt": ("failed", "no_service"), "b.txt": ("failed", "no_service")}
    assert tries == 2


async def test_following_ends_when_every_document_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.cli.batch._FIRST_PAUSE", 0.001)
    course = [
        document("a", state="running", stage="embed"),
        document("a", state="failed", error={"code": "parse_failed"}),
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(202, json={"documents": [document("a", state="queued", quality=None)]})
        return httpx.Response(200, json=course.pop(0))

    async with batch_on(answer) as batch:
        await batch.upload_all(files(tmp_path, "a"))
        await batch.follow(timeout=60)

    assert states(batch) == {"a": ("failed", "parse_failed")}


async def test_following_gives_up_when_nothing_changes(tmp_path: Path) -> None:
    async with batch_on(lambda _: httpx.Response(200, json=document("a", state="queued"))) as batch:
        batch.rows["a"] = Row(source="a", id="id-a", state="queued", quality="full", chunks=1)
        await batch.follow(timeout=0)

    assert states(batch) == {"a": ("queued", None)}


async def test_a_document_that_is_deleted_meanwhile_is_a_failed_row(tmp_path: Path) -> None:
    gone = httpx.Response(404, json={"code": "document_not_found", "detail": "gone"})

    async with batch_on(lambda _: gone) as batch:
        batch.rows["a"] = Row(source="a", id="id-a", state="queued")
        await batch.follow(timeout=60)

    assert states(batch) == {"a": ("failed", "document_not_found")}


async def test_a_cancelled_upload_knows_what_is_already_there(tmp_path: Path) -> None:
    first_done = asyncio.Event()

    async def respond(request: httpx.Request) -> httpx.Response:
        await request.aread()
        if first_done.is_set():
            await asyncio.Event().wait()
        first_done.set()
        return httpx.Response(202, json={"documents": [document(source_of(request))]})

    upload = Upload(collection="n", metadata={}, concurrency=1)
    async with open_service("http://test", transport=httpx.MockTransport(respond)) as service:
        batch = Batch(service, upload)
        work = asyncio.create_task(batch.upload_all(files(tmp_path, "a", "b")))
        await first_done.wait()
        while not batch.rows:  # noqa: ASYNC110
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    assert work.cancelled()
    assert batch.uploaded == 1


polled = threading.Event()


@pytest.fixture
def url() -> Iterator[str]:
    """A service that publishes all but what is named ``bad*`` (fails), ``slow*`` (waits), ``*.exe`` (refused)."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = 200, dict[str, Any](name="n")
            if self.path.endswith("/documents"):
                found = re.search(rb'name="source"\r\n\r\n(.*?)\r\n', body)
                source = found.group(1).decode() if found else ""
                state = "failed" if source.startswith("bad") else "published"
                error = {"code": "parse_failed", "message": "damaged"} if state == "failed" else None
                status, answer = 202, {"documents": [document(source, state=state, error=error)]}
                if source.startswith("slow"):
                    answer = {"documents": [document(source, state="queued")]}
                if source.endswith(".exe"):
                    status, answer = 415, {"code": "unsupported_media_type", "detail": "no"}
            if "/documents/" in self.path:
                polled.set()
                answer = document("slow.txt", state="queued")
                status = 200
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = respond  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("names", "code"),
    [(["a.txt"], 0), (["a.txt", "bad.txt"], 3), (["bad.txt"], 1), (["a.txt", "b.exe"], 3), (["b.exe", "bad.txt"], 1)],
)
def test_the_exit_code_says_whether_all_some_or_none_failed(
    names: list[str], code: int, url: str, tmp_path: Path
) -> None:
    files(tmp_path, *names)

    assert run(["ingest", str(tmp_path), "-c", "n", "--url", url]) == code


def test_the_table_shows_every_document_with_its_error_code(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files(tmp_path, "a.txt", "bad.txt", "c.exe")

    run(["ingest", str(tmp_path), "-c", "n", "--url", url])

    output = capsys.readouterr()
    rows = [line.split() for line in output.out.splitlines()[2:5]]
    assert rows == [
        ["a.txt", "published", "full", "1", "-"],
        ["bad.txt", "failed", "full", "1", "parse_failed"],
        ["c.exe", "unsupported", "-", "-", "unsupported_media_type"],
    ]
    assert "bad.txt: damaged" in output.err
    assert "3 documents:" in output.out


def test_json_output_is_one_document(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files(tmp_path, "a.txt", "bad.txt")

    code = run(["ingest", str(tmp_path), "-c", "n", "--url", url, "--json"])

    report = json.loads(capsys.readouterr().out)
    assert code == 3
    assert report["counts"] == {"published": 1, "failed": 1}
    assert {d["source"]: d["error"] for d in report["documents"]} == {
        "a.txt": None, "bad.txt": {"code": "parse_failed", "message": "damaged"},
    }  # fmt: skip


def test_an_empty_folder_is_an_error_that_names_it(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("x")

    assert run(["ingest", str(tmp_path), "-c", "n", "--url", url]) == 1
    error = capsys.readouterr().err
    assert "there are no files in" in error
    assert "--recursive" in error


def test_a_path_that_does_not_exist_is_a_usage_error(url: str, tmp_path: Path) -> None:
    assert run(["ingest", str(tmp_path / "no"), "-c", "n", "--url", url]) == 2


def test_an_interrupt_says_what_is_uploaded_and_ends_with_130(url: str, tmp_path: Path) -> None:
    polled.clear()
    files(tmp_path, "a.txt", "slow.txt")
    command = [sys.executable, "-m", "rag.cli", "ingest", str(tmp_path), "-c", "n", "--url", url, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    assert polled.wait(60)
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)

    assert (process.returncode, output) == (130, "")
    assert "2 of 2 files are uploaded, and the service goes on with them" in error
    assert "Traceback" not in error
