"""The real models behind the real host: the worker's client sees what the service sees, and people go first."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import httpx
import numpy as np
import pytest
import pytest_asyncio
import uvicorn

from rag.batching import open_lane
from rag.core.errors import InvalidRequestError, MissingExtraError, ModelMismatchError
from rag.core.records import Hit
from rag.core.types import Priority
from rag.embedding import create_model_host, load_tokenizer, open_local_embedder, open_remote_embedder
from rag.embedding.local import LocalEmbedder
from rag.models import ModelKind, resolve
from rag.models.precision import choose_precision, cpu_features
from rag.telemetry import REGISTRY
from rerank import CrossEncoderReranker, LocalScorer, open_local_scorer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

EMBEDDER = "multilingual-e5-small"
CROSS_ENCODER = "cross-encoder-multilingual-l6"
TEXTS = [
    "Ships lie at anchor in the harbour until the tide turns.",
    "船只停泊在港口，等待潮水转向。",
    "Bread is baked in a wood-fired oven at dawn.",
    "面包师傅在黎明时分用柴火烤面包。",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    embedder: str
    cross_encoder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    embedder: LocalEmbedder
    scorer: LocalScorer


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    pytest.importorskip("sentence_transformers", reason="needs the models of the extra local")
    models_dir = Path(os.environ.get("ANCHORAGE_MODELS_DIR") or tmp_path_factory.mktemp("models"))
    try:
        return Folders(
            embedder=resolve(EMBEDDER, models_dir=models_dir),
            cross_encoder=resolve(CROSS_ENCODER, models_dir=models_dir),
        )
    except MissingExtraError as error:
        pytest.skip(f"needs the models of the extra local: {error}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models(folders: Folders) -> AsyncIterator[Models]:
    features = cpu_features()
    async with (
        open_lane() as lane,
        open_local_embedder(
            folders.embedder,
            name=EMBEDDER,
            device="cpu",
            precision=choose_precision(ModelKind.EMBEDDER, features=features),
            lane=lane,
        ) as embedder,
        open_local_scorer(
            folders.cross_encoder,
            name=CROSS_ENCODER,
            device="cpu",
            precision=choose_precision(ModelKind.RERANKER, features=features),
            lane=lane,
        ) as scorer,
    ):
        assert isinstance(embedder, LocalEmbedder)
        assert embedder.dimension == 384
        await embedder.wait_ready()
        await scorer.wait_ready()
        yield Models(embedder=embedder, scorer=scorer)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  neither uvicorn nor metrics notify
            await asyncio.sleep(0.005)


@asynccontextmanager
async def served(models: Models, socket: Path) -> AsyncIterator[None]:
    app = create_model_host(models.embedder, models.scorer)
    server = uvicorn.Server(uvicorn.Config(app, uds=str(socket), log_level="warning", lifespan="off"))
    task = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        yield
    finally:
        server.should_exit = True
        await task


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "models.sock"


def batches() -> float:
    return REGISTRY.get_sample_value("rag_model_batch_size_count", {"model": "embedding"}) or 0.0


async def test_the_remote_embedder_gives_the_vectors_of_the_local_one(models: Models, socket: Path) -> None:
    local = await models.embedder.embed(TEXTS, kind="document")

    async with served(models, socket), open_remote_embedder(socket=socket, model=EMBEDDER, dimension=384) as remote:
        received = await remote.embed(TEXTS, kind="document", priority=Priority.BULK)

    assert received.shape == (4, 384)
    assert received.dtype == np.float32
    assert (local * received).sum(axis=1) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("query", "topic"),
    [("Where do ships anchor?", 0), ("船停在哪里？", 0), ("Who bakes bread?", 2), ("谁在烤面包？", 2)],
)
async def test_a_query_is_nearest_to_the_texts_of_its_topic_in_either_language(
    models: Models, query: str, topic: int
) -> None:
    asked = await models.embedder.embed([query], kind="query")
    english_ships, chinese_ships, english_bread, chinese_bread = await models.embedder.embed(TEXTS, kind="document")

    for ships, bread in [(english_ships, english_bread), (chinese_ships, chinese_bread)]:
        nearest = 0 if float(asked[0] @ ships) > float(asked[0] @ bread) else 2
        assert nearest == topic


async def test_queries_and_documents_are_embedded_with_their_own_prompts(models: Models) -> None:
    query = await models.embedder.embed(["harbour"], kind="query")
    document = await models.embedder.embed(["harbour"], kind="document")

    assert float((query @ document.T)[0, 0]) < 0.999


@pytest.mark.parametrize(("query", "best"), [("Where do ships anchor?", 0), ("谁在烤面包？", 3)])
async def test_the_cross_encoder_orders_both_languages_over_the_wire(
    models: Models, socket: Path, query: str, best: int
) -> None:
    transport = httpx.AsyncHTTPTransport(uds=str(socket))
    async with served(models, socket), httpx.AsyncClient(transport=transport, base_url="http://models") as client:
        reply = await client.post("/score", json={"query": query, "texts": TEXTS}, timeout=60)
        health = await client.get("/healthz")

    logits = np.frombuffer(reply.content, dtype="<f4")
    assert int(logits.argmax()) == best
    assert health.json()["rerank"] == {"model": CROSS_ENCODER, "status": "ready"}


async def test_reranked_hits_carry_probabilities_and_the_best_one_first(models: Models) -> None:
    hits = [
        Hit(id=_id(place), score=0.02, document=_id(9), generation=1, index=0, text=text, start=0, end=len(text))
        for place, text in enumerate(TEXTS)
    ]

    ranked = await CrossEncoderReranker(models.scorer, weight=0.5).rerank("When is bread baked?", hits)

    assert ranked[0].text == TEXTS[2]
    assert all(hit.rerank_score is not None and 0 <= hit.rerank_score <= 1 for hit in ranked)


async def test_a_pair_longer_than_the_window_is_scored(models: Models) -> None:
    scores = await models.scorer.score("anchor " * 500, ["harbour " * 2000, "短"])

    assert np.isfinite(scores).all()


async def test_an_interactive_query_waits_for_about_one_bulk_batch(models: Models) -> None:
    bulk = asyncio.create_task(models.embedder.embed([" ".join(TEXTS)] * 64, kind="document", priority=Priority.BULK))
    started = batches()
    await until(lambda: batches() >= started + 2)

    before = batches()
    await models.embedder.embed(["Where do ships anchor?"], kind="query")
    passed = batches() - before
    unfinished = not bulk.done()
    await bulk

    assert unfinished
    assert passed <= 4


async def test_a_document_over_the_window_is_refused_through_the_host(models: Models, socket: Path) -> None:
    async with served(models, socket), open_remote_embedder(socket=socket, model=EMBEDDER, dimension=384) as remote:
        with pytest.raises(InvalidRequestError, match="at most 512"):
            await remote.embed(["锚" * 3000], kind="document")


async def test_a_client_of_another_model_is_refused(models: Models, socket: Path) -> None:
    async with served(models, socket), open_remote_embedder(socket=socket, model="other", dimension=384) as remote:
        with pytest.raises(ModelMismatchError):
            await remote.embed(["anchor"], kind="document")


async def test_a_client_outlives_a_host_that_restarts(models: Models, socket: Path) -> None:
    async with open_remote_embedder(socket=socket, model=EMBEDDER, dimension=384) as remote:
        async with served(models, socket):
            first = await remote.embed(["anchor"], kind="query")
        meanwhile = asyncio.create_task(remote.embed(["anchor"], kind="query"))
        await asyncio.sleep(0)
        async with served(models, socket):
            second = await meanwhile

    assert float((first @ second.T)[0, 0]) == pytest.approx(1.0, abs=1e-3)


async def test_nul_in_a_text_cuts_nothing_off(models: Models) -> None:
    vectors = await models.embedder.embed(["ships\0at anchor", "ships at anchor", "ships"], kind="document")

    whole, cut = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert whole > 0.999
    assert cut < whole


async def test_the_tokenizer_of_the_folder_places_tokens_of_both_languages(folders: Folders) -> None:
    tokenizer = load_tokenizer(folders.embedder)

    for text, spans in zip(TEXTS, tokenizer.spans(TEXTS), strict=True):
        covered = "".join(text[start:end] for start, end in spans)
        assert "".join(covered.split()) == "".join(text.split())


def _id(number: int) -> UUID:
    return UUID(int=number)
