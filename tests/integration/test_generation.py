"""The chat model's client against a scripted OpenAI-compatible server, and against a real vLLM."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, cast

import httpx
import pytest

from rag.core.answers import Delta, DocumentLabel, Message
from rag.core.errors import ConfigurationError, GenerationError
from rag.core.ports import Generator
from rag.generation import open_generator
from rag.generation.evidence import Evidence
from rag.generation.prompt import build_prompt
from rag.models import prepare
from rag.query import AnswerRequest, DeltaEvent, DoneEvent, QueryPipeline
from tests.unit.rag.query.fakes import (
    FakeGenerator,
    ask,
    make_hit,
    make_pipeline,
    serving,
    soon,
)

REPOSITORY = Path(__file__).resolve().parents[2]
VLLM_PYTHON = REPOSITORY / ".venv-vllm" / "bin" / "python"
MODEL = "smollm2-135m-instruct"
QUESTION = [Message(role="user", content="Who planted the trees?")]

Script = Callable[["Call"], Awaitable[None]]


@dataclass
class Call:
    """One request that a scripted backend got."""

    path: str
    body: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Event

    async def head(self, status: int = 200, *, type: str = "text/event-stream") -> None:
        lines = f"HTTP/1.1 {status} X\r\ncontent-type: {type}\r\nconnection: close\r\n\r\n"
        self.writer.write(lines.encode())
        await self.writer.drain()

    async def event(self, text: str | None = None, *, finish: str | None = None, usage: bool = False) -> None:
        choice = {"index": 0, "delta": {"content": text} if text is not None else {}, "finish_reason": finish}
        chunk: dict[str, Any] = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        chunk["choices"] = [] if usage else [choice]
        if usage:
            chunk["usage"] = {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13}
        await self.raw(f"data: {json.dumps(chunk)}\n\n")

    async def raw(self, text: str) -> None:
        self.writer.write(text.encode())
        await self.writer.drain()

    async def complete(self, *texts: str) -> None:
        await self.head()
        for text in texts:
            await self.event(text)
        await self.event(finish="stop")
        await self.event(usage=True)
        await self.raw("data: [DONE]\n\n")


@dataclass
class Backend:
    """A scripted server; ``calls`` are what it was asked, in order."""

    script: Script
    url: str = ""
    calls: list[Call] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            sizes = [line.split(":")[1] for line in head.lower().splitlines() if line.startswith("content-length:")]
            body = json.loads(await reader.readexactly(int(sizes[0]))) if sizes else {}
            call = Call(head.split()[1], body, reader, writer, asyncio.Event())
            self.calls.append(call)
            self.asked.set()
            await self._run(call)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _run(self, call: Call) -> None:
        """Run the script, noticing when the client hangs up."""
        script = asyncio.ensure_future(self.script(call))
        hangup = asyncio.ensure_future(call.reader.read(1))
        try:
            await asyncio.wait({script, hangup}, return_when=asyncio.FIRST_COMPLETED)
            if hangup.done():
                call.gone.set()
        finally:
            for task in (script, hangup):
                task.cancel()
            await asyncio.gather(script, hangup, return_exceptions=True)


Start = Callable[[Script], Awaitable[Backend]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(script: Script) -> Backend:
            backend = Backend(script=script)
            server = await asyncio.start_server(backend.handle, "127.0.0.1", 0)
            stack.callback(server.close)
            backend.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return backend

        yield begin


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def read(generator: Generator, messages: Sequence[Message] = QUESTION, **options: Any) -> list[Delta]:
    options = {"max_tokens": 20, "temperature": 0.0, **options}
    return [delta async for delta in generator.stream(messages, **options)]


def pipeline_over(text: str, generator: Generator) -> QueryPipeline:
    return make_pipeline(*serving(make_hit("a", text)), generator=cast("FakeGenerator", generator))


async def hello(call: Call) -> None:
    await call.complete("Edith", " Marlow")


async def refuse(call: Call) -> None:
    await call.head(500, type="application/json")
    await call.raw('{"error": {"message": "no"}}')


async def hang(call: Call) -> None:
    await call.head()
    await asyncio.Event().wait()


async def test_a_completion_comes_as_it_is_written_with_its_usage_last(start: Start) -> None:
    backend = await start(hello)

    async with open_generator([backend.url], model="m") as generator:
        deltas = await read(generator, temperature=0.5)

    assert [delta.text for delta in deltas] == ["Edith", " Marlow", ""]
    assert deltas[-1].finish_reason == "stop"
    assert deltas[-1].usage is not None
    assert (deltas[-1].usage.prompt_tokens, deltas[-1].usage.completion_tokens) == (11, 2)
    body = backend.calls[0].body
    assert (body["model"], body["stream"], body["max_tokens"], body["temperature"]) == ("m", True, 20, 0.5)
    assert body["stream_options"] == {"include_usage": True}
    assert body["messages"] == [{"role": "user", "content": "Who planted the trees?"}]


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_a_url_is_taken_with_or_without_the_version(start: Start, suffix: str) -> None:
    backend = await start(hello)

    async with open_generator([backend.url + suffix], model="m") as generator:
        await read(generator)

    assert backend.calls[0].path == "/v1/chat/completions"


async def test_max_tokens_are_lowered_to_what_the_context_leaves(start: Start) -> None:
    backend = await start(hello)

    async with open_generator([backend.url], model="m", context_tokens=300) as generator:
        await read(generator, [Message(role="user", content="x" * 200)], max_tokens=5000)

    assert backend.calls[0].body["max_tokens"] <= 100


async def test_closing_the_iterator_closes_the_connection_within_a_second(start: Start) -> None:
    async def endless(call: Call) -> None:
        await call.head()
        while True:
            await call.event("word ")
            await asyncio.sleep(0.01)

    backend = await start(endless)
    async with open_generator([backend.url], model="m") as generator:
        async with aclosing(cast("Any", generator.stream(QUESTION, max_tokens=20, temperature=0.0))) as deltas:
            await anext(deltas)
        await asyncio.wait_for(backend.calls[0].gone.wait(), 1.0)


@pytest.mark.parametrize("answered", [True, False], ids=["after the head", "before the head"])
async def test_cancelling_a_wait_closes_the_connection_within_a_second(start: Start, answered: bool) -> None:
    async def silent(call: Call) -> None:
        if answered:
            await call.head()
        await asyncio.Event().wait()

    backend = await start(silent)
    async with open_generator([backend.url], model="m") as generator:
        waiting = asyncio.ensure_future(read(generator))
        await asyncio.wait_for(backend.asked.wait(), 5)
        waiting.cancel()
        await asyncio.wait([waiting])

        await asyncio.wait_for(backend.calls[0].gone.wait(), 1.0)


async def test_closing_an_answer_reaches_the_backend_within_a_second(start: Start) -> None:
    async def slow(call: Call) -> None:
        await call.head()
        await call.event("Edith")
        await asyncio.Event().wait()

    backend = await start(slow)
    async with open_generator([backend.url], model="m") as generator:
        pipeline = pipeline_over("Edith planted it.", generator)
        async with aclosing(pipeline.answer(AnswerRequest(search=ask()), soon())) as events:
            async for event in events:
                if isinstance(event, DeltaEvent):
                    break
        await asyncio.wait_for(backend.calls[0].gone.wait(), 1.0)


async def test_a_second_url_takes_over_before_the_first_token_and_is_remembered(start: Start) -> None:
    down, up = await start(refuse), await start(hello)

    async with open_generator([down.url, up.url], model="m") as generator:
        first, second = await read(generator), await read(generator)

    assert [delta.text for delta in first] == [delta.text for delta in second] == ["Edith", " Marlow", ""]
    assert (len(down.calls), len(up.calls)) == (1, 2)


async def closing_when_used_again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the first request of a connection and closes it when the second one comes."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        head = await reader.readuntil(b"\r\n\r\n")
        call = Call(head.decode().split()[1], {}, reader, writer, asyncio.Event())
        if call.path == "/v1/models":
            body = '{"object": "list", "data": []}'
            await call.raw(
                f"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
            )
            await reader.readuntil(b"\r\n\r\n")
        else:
            await hello(call)
    writer.close()


async def test_a_pooled_connection_that_the_backend_just_closed_costs_no_answer() -> None:
    server = await asyncio.start_server(closing_when_used_again, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async with server, open_generator([url], model="m") as generator:
        await generator.ping()
        deltas = await read(generator)

    assert "".join(delta.text for delta in deltas) == "Edith Marlow"


async def test_a_url_where_nothing_listens_is_failed_over(start: Start) -> None:
    up = await start(hello)

    async with open_generator([f"http://127.0.0.1:{free_port()}", up.url], model="m") as generator:
        deltas = await read(generator)

    assert "".join(delta.text for delta in deltas) == "Edith Marlow"


async def _empty(call: Call) -> None:
    await call.complete()


async def _html(call: Call) -> None:
    await call.head(type="text/html")
    await call.raw("<html>It works!</html>")


async def _garbage(call: Call) -> None:
    await call.head()
    await call.raw("data: {not json\n\n")


async def _closed(call: Call) -> None:
    call.writer.close()


async def _busy(call: Call) -> None:
    await call.head(429, type="application/json")
    await call.raw("{}")


async def _error_event(call: Call) -> None:
    await call.head()
    await call.raw('data: {"error": {"message": "engine died", "code": 500}}\n\n')


@pytest.mark.parametrize(
    ("script", "tries"),
    [(refuse, 1), (_empty, 1), (_html, 1), (_garbage, 1), (_busy, 1), (_error_event, 1), (_closed, 2)],
)
async def test_a_backend_that_fails_before_its_first_token_is_asked_again_only_where_it_hung_up(
    start: Start, script: Script, tries: int
) -> None:
    one, two = await start(script), await start(script)

    async with open_generator([one.url, two.url], model="m") as generator:
        with pytest.raises(GenerationError):
            await read(generator)

    assert (len(one.calls), len(two.calls)) == (tries, tries)


async def test_a_request_that_is_refused_as_wrong_is_not_tried_elsewhere(start: Start) -> None:
    async def wrong(call: Call) -> None:
        await call.head(400, type="application/json")
        await call.raw('{"error": {"message": "secret prompt text"}}')

    one, two = await start(wrong), await start(hello)
    async with open_generator([one.url, two.url], model="m") as generator:
        with pytest.raises(GenerationError, match="HTTP 400") as caught:
            await read(generator)

    assert len(two.calls) == 0
    assert "secret" not in caught.value.message


async def test_a_stream_that_breaks_off_after_its_first_token_is_an_error_without_failover(start: Start) -> None:
    async def broken(call: Call) -> None:
        await call.head()
        await call.event("Edith")

    one, two = await start(broken), await start(hello)
    async with open_generator([one.url, two.url], model="m") as generator:
        with pytest.raises(GenerationError):
            await read(generator)

    assert len(two.calls) == 0


async def test_a_ping_tells_whether_any_backend_answers(start: Start) -> None:
    async def models(call: Call) -> None:
        await call.head(type="application/json")
        await call.raw('{"object": "list", "data": []}')

    up, down = await start(models), await start(refuse)
    async with open_generator([down.url, up.url], model="m") as generator:
        await generator.ping()
    async with open_generator([down.url], model="m") as generator:
        with pytest.raises(GenerationError):
            await generator.ping()
    async with open_generator([], model="m") as generator:
        with pytest.raises(GenerationError, match="no generator"):
            await generator.ping()


async def test_without_a_tokenizer_each_byte_counts_as_a_token() -> None:
    async with open_generator([], model="m") as generator:
        assert await generator.count_tokens(["abc", "果园", ""]) == [3, 6, 0]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = os.environ.get("ANCHORAGE_MODELS_DIR")
    try:
        return prepare(MODEL, models_dir=Path(folder) if folder else tmp_path_factory.mktemp("models"))
    except ConfigurationError as error:
        pytest.skip(f"the generator's weights are not installed: {error}")


@pytest.fixture(scope="module")
def vllm_url(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real vLLM on a free port, for this module."""
    if not VLLM_PYTHON.exists():
        pytest.skip(f"vLLM is not installed: no {VLLM_PYTHON.relative_to(REPOSITORY)}")
    port, log = free_port(), tmp_path_factory.mktemp("vllm") / "vllm.log"
    command = [
        *(str(VLLM_PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)),
        *("--model", str(model_folder), "--served-model-name", MODEL, "--max-model-len", "2048"),
        *("--dtype", "bfloat16", "--gpu-memory-utilization", "0.3", "--enforce-eager"),
    ]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, cwd=log.parent, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up = monotonic() + 240
    while monotonic() < give_up and process.poll() is None:
        try:
            if httpx.get(url, timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            process.poll()
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
    pytest.fail(f"vLLM did not start:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.mark.slow
async def test_a_real_vllm_answers_from_the_evidence_with_a_citation_that_quotes_it(
    vllm_url: str, model_folder: Path
) -> None:
    text = (
        "The Larkfield orchard grows 14 apple varieties. The harvest begins in the second week of September. "
        "It lasts about five weeks."
    )
    async with open_generator([vllm_url], model=MODEL, tokenizer_folder=model_folder, languages={"en"}) as generator:
        await generator.ping()
        pipeline = pipeline_over(text, generator)
        request = AnswerRequest(search=ask("When does the harvest begin?"), max_tokens=64)
        events = [event async for event in pipeline.answer(request, soon(120))]

    assert isinstance(events[-1], DoneEvent)
    answer = events[-1].answer
    assert (answer.degraded, answer.skipped[1:]) == ((), ())
    assert "September" in answer.text
    assert "".join(event.text for event in events if isinstance(event, DeltaEvent)) == answer.text
    assert answer.usage.completion_tokens > 0
    (citation,) = answer.citations
    assert text[citation.start : citation.end] == citation.quote
    assert "September" in citation.quote


@pytest.mark.slow
async def test_a_real_vllm_stops_generating_when_the_client_leaves(vllm_url: str, model_folder: Path) -> None:
    story = [Message(role="user", content="Write a very long story about an orchard, at least a thousand words.")]

    async with open_generator([vllm_url], model=MODEL, tokenizer_folder=model_folder) as generator:
        async with aclosing(cast("Any", generator.stream(story, max_tokens=1900, temperature=0.8))) as deltas:
            await anext(deltas)
        stopped = await _stops(vllm_url, within=10)

    assert stopped, "the completion went on"


async def _stops(url: str, *, within: float) -> bool:
    """Whether nothing runs any more long before 1,900 tokens could have been written."""
    give_up = monotonic() + within
    async with httpx.AsyncClient() as client:
        while running := await _running(client, url):
            if monotonic() > give_up:
                break
            await asyncio.sleep(0.05)
    return not running


async def _running(client: httpx.AsyncClient, url: str) -> bool:
    metrics = (await client.get(f"{url}/metrics", timeout=10)).text
    lines = [line for line in metrics.splitlines() if line.startswith("vllm:num_requests_running{")]
    return any(float(line.split()[-1]) > 0 for line in lines)


@pytest.mark.slow
async def test_a_real_vllm_takes_a_prompt_that_was_packed_to_the_brim(vllm_url: str, model_folder: Path) -> None:
    label = DocumentLabel(source="a.txt", title="Orchard", media_type="text/plain")
    text = "The Larkfield orchard grows 14 apple varieties — 果园种植苹果 — and sells 3.5 t/day. " * 12
    evidence = [Evidence(marker=place, hit=make_hit(f"d{place}", text), label=label) for place in range(1, 30)]

    async with open_generator([vllm_url], model=MODEL, tokenizer_folder=model_folder) as generator:
        prompt = await build_prompt("How many?", evidence, history=(), generator=generator, max_tokens=256)
        assert prompt is not None
        deltas = await read(generator, prompt.messages, max_tokens=8)

    usage = deltas[-1].usage
    assert usage is not None
    assert usage.prompt_tokens + 256 <= 2048
    assert 0 < len(prompt.evidence) < 29
