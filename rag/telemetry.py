"""The metrics of a process: one registry, names and labels fixed here.

Labels hold words from closed sets only (routes as templates, stages, states): never an id, a tenant, a query,
a raw path or the text of an error, so that the number of series cannot grow with use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import lru_cache

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
    start_http_server,
)

REGISTRY = CollectorRegistry(auto_describe=True)
CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Content type of what :func:`render` returns."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 200)
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

HTTP_REQUESTS = Counter(
    "rag_http_requests_total", "HTTP requests answered.", ("route", "method", "status"), registry=REGISTRY
)
HTTP_REQUEST_SECONDS = Histogram(
    "rag_http_request_duration_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=REGISTRY
)
STAGE_SECONDS = Histogram(
    "rag_stage_duration_seconds", "Time of one stage.", ("stage",), buckets=_SECONDS, registry=REGISTRY
)
DEGRADED_ANSWERS = Counter(
    "rag_degraded_answers_total", "Results given although a stage failed.", ("mode",), registry=REGISTRY
)
RETRIEVED_CHUNKS = Histogram(
    "rag_retrieved_chunks", "Hits of a search; zero means nothing was found.", buckets=_COUNTS, registry=REGISTRY
)
BREAKER_STATE = Gauge(
    "rag_circuit_breaker_state", "1 for the state that the breaker is in.", ("breaker", "state"), registry=REGISTRY
)
BREAKER_TRANSITIONS = Counter(
    "rag_circuit_breaker_transitions_total", "Changes of state.", ("breaker", "to"), registry=REGISTRY
)
BREAKER_REJECTED = Counter(
    "rag_circuit_breaker_rejected_total", "Calls that a breaker refused.", ("breaker", "reason"), registry=REGISTRY
)
SHED = Counter("rag_shed_total", "Work refused to stay within a bound.", ("reason",), registry=REGISTRY)

INGEST_DOCUMENTS = Counter(
    "rag_ingest_documents_total",
    "Documents whose attempt ended; the tier is the quality that was published.",
    ("format", "tier", "outcome"),
    registry=REGISTRY,
)
PARSE_SECONDS = Histogram(
    "rag_ingest_parse_duration_seconds",
    "Time of one attempt to parse a document.",
    ("format", "tier"),
    buckets=_SECONDS,
    registry=REGISTRY,
)
PARSE_WORKER_KILLS = Counter(
    "rag_parse_worker_kills_total", "Parser processes ended before they were done.", ("reason",), registry=REGISTRY
)
JOBS = Gauge("rag_jobs", "Jobs by state.", ("state",), registry=REGISTRY)
JOB_OLDEST_AGE_SECONDS = Gauge("rag_job_oldest_age_seconds", "Age of the oldest waiting job.", registry=REGISTRY)

MODEL_CALLS = Counter(
    "rag_model_calls_total", "Calls of a local model.", ("model", "priority", "outcome"), registry=REGISTRY
)
MODEL_ITEMS = Gauge(
    "rag_model_items", "Texts or pairs that wait for a model or are in it.", ("model", "priority"), registry=REGISTRY
)
MODEL_BATCH_SIZE = Histogram(
    "rag_model_batch_size", "Items of one forward pass.", ("model",), buckets=_BATCH_SIZES, registry=REGISTRY
)
MODEL_BATCH_SECONDS = Histogram(
    "rag_model_batch_duration_seconds", "Time of one forward pass.", ("model",), buckets=_SECONDS, registry=REGISTRY
)

LLM_TOKENS = Counter("rag_llm_tokens_total", "Tokens of prompts and completions.", ("type",), registry=REGISTRY)
LLM_FIRST_TOKEN_SECONDS = Histogram(
    "rag_llm_time_to_first_token_seconds", "Time to the first token.", buckets=_SECONDS, registry=REGISTRY
)
STORE_SECONDS = Histogram(
    "rag_vector_store_operation_duration_seconds",
    "Time of one vector store call.",
    ("store", "op", "outcome"),
    buckets=_SECONDS,
    registry=REGISTRY,
)
STORE_EXACT_FALLBACKS = Gauge(
    "rag_vector_store_exact_fallbacks",
    "Searches since the start whose index found too few rows, so that the rows were compared.",
    ("store",),
    registry=REGISTRY,
)
EVENT_LOOP_LAG_SECONDS = Histogram(
    "rag_event_loop_lag_seconds", "How late the event loop wakes a task.", buckets=_LAG_SECONDS, registry=REGISTRY
)


def render() -> bytes:
    """All metrics in the text format of Prometheus; serve them as :data:`CONTENT_TYPE`."""
    return generate_latest(REGISTRY)


@contextmanager
def serve_metrics(host: str, port: int) -> Iterator[None]:
    """Answer every GET on ``host:port`` with :func:`render`, in a thread; port 0: not at all.

    Raises ``OSError`` when the port is taken.
    """
    if port == 0:
        yield
        return
    server, thread = start_http_server(port, addr=host, registry=REGISTRY)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def stage_timer(name: str, timings: MutableMapping[str, float]) -> Iterator[None]:
    """Add the seconds of the ``with`` body to ``timings[name]`` and to ``rag_stage_duration_seconds``.

    It counts failed and cancelled bodies too, and holds no state of its own: tasks may share ``timings``.
    """
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds = time.perf_counter() - began
        timings[name] = timings.get(name, 0.0) + seconds
        _stage_seconds(name).observe(seconds)


@lru_cache(maxsize=64)
def _stage_seconds(name: str) -> Histogram:
    """One stage's part of the histogram; finding it costs more than observing."""
    return STAGE_SECONDS.labels(name)


@contextmanager
def store_timer(store: str, operation: str) -> Iterator[None]:
    """Observe one vector store call with its outcome: ``ok``, ``error`` or ``cancelled``."""
    began = time.perf_counter()
    with _outcome(lambda outcome: STORE_SECONDS.labels(store, operation, outcome).observe(time.perf_counter() - began)):
        yield


@contextmanager
def model_call(model: str, priority: str, items: int) -> Iterator[None]:
    """Count one call of a local model with its outcome, and its items while it lasts."""
    waiting = MODEL_ITEMS.labels(model, priority)
    waiting.inc(items)
    try:
        with _outcome(lambda outcome: MODEL_CALLS.labels(model, priority, outcome).inc()):
            yield
    finally:
        waiting.dec(items)


@contextmanager
def model_batch(model: str, items: int) -> Iterator[None]:
    """Observe the size and the seconds of one forward pass; callable in any thread."""
    MODEL_BATCH_SIZE.labels(model).observe(items)
    with MODEL_BATCH_SECONDS.labels(model).time():
        yield


@contextmanager
def _outcome(record: Callable[[str], object]) -> Iterator[None]:
    outcome = "error"
    try:
        yield
        outcome = "ok"
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    finally:
        record(outcome)


async def sample_loop_lag(*, interval: float = 0.5) -> None:
    """Observe every ``interval`` seconds how late the loop woke this task; runs until cancelled.

    The caller owns it: start it in a task group.
    """
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        EVENT_LOOP_LAG_SECONDS.observe(max(0.0, loop.time() - due))
