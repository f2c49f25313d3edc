"""The metrics of a process: names that dashboards rely on, and timers that count every outcome."""

from __future__ import annotations

import asyncio
import contextlib

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rag import telemetry
from rag.supervision.addresses import require_free

NAMES = {
    "rag_http_requests",
    "rag_http_request_duration_seconds",
    "rag_stage_duration_seconds",
    "rag_ingest_documents",
    "rag_ingest_parse_duration_seconds",
    "rag_parse_worker_kills",
    "rag_jobs",
    "rag_job_oldest_age_seconds",
    "rag_degraded_answers",
    "rag_llm_tokens",
    "rag_llm_time_to_first_token_seconds",
    "rag_vector_store_operation_duration_seconds",
    "rag_event_loop_lag_seconds",
    "rag_retrieved_chunks",
}


def sample(name: str, **labels: str) -> float:
    return telemetry.REGISTRY.get_sample_value(name, labels) or 0.0


def test_the_exposition_parses_and_holds_every_promised_name() -> None:
    families = {family.name for family in text_string_to_metric_families(telemetry.render().decode())}

    assert families >= NAMES
    assert telemetry.CONTENT_TYPE.startswith("text/plain")


def test_a_stage_timer_adds_to_what_the_stage_already_took() -> None:
    timings = {"embed": 1.0}

    with telemetry.stage_timer("embed", timings):
        pass
    with telemetry.stage_timer("retrieve", timings):
        pass

    assert timings["embed"] > 1.0
    assert timings["retrieve"] >= 0.0


def test_a_stage_that_fails_is_timed_too() -> None:
    timings: dict[str, float] = {}
    before = sample("rag_stage_duration_seconds_count", stage="rerank")

    with pytest.raises(RuntimeError), telemetry.stage_timer("rerank", timings):
        raise RuntimeError

    assert "rerank" in timings
    assert sample("rag_stage_duration_seconds_count", stage="rerank") == before + 1


@pytest.mark.parametrize(
    ("error", "outcome"), [(None, "ok"), (RuntimeError(), "error"), (asyncio.CancelledError(), "cancelled")]
)
def test_a_store_call_is_counted_under_its_outcome(error: BaseException | None, outcome: str) -> None:
    name, labels = "rag_vector_store_operation_duration_seconds_count", {"store": "s", "op": "o", "outcome": outcome}
    before = sample(name, **labels)

    with contextlib.suppress(RuntimeError, asyncio.CancelledError), telemetry.store_timer("s", "o"):
        if error is not None:
            raise error

    assert sample(name, **labels) == before + 1


def test_items_of_a_model_call_are_counted_only_while_it_lasts() -> None:
    with telemetry.model_call("embedding", "bulk", 7):
        during = sample("rag_model_items", model="embedding", priority="bulk")

    assert during == 7
    assert sample("rag_model_items", model="embedding", priority="bulk") == 0


async def test_the_lag_sampler_observes_until_it_is_cancelled() -> None:
    before = sample("rag_event_loop_lag_seconds_count")
    task = asyncio.create_task(telemetry.sample_loop_lag(interval=0.001))

    async with asyncio.timeout(5):
        while sample("rag_event_loop_lag_seconds_count") < before + 3:  # noqa: ASYNC110  metrics tell nobody
            await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


def test_metrics_are_served_on_a_port_of_their_own_until_the_end() -> None:
    port = require_free("127.0.0.1", 0)

    with telemetry.serve_metrics("127.0.0.1", port):
        served = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)

    assert "rag_ingest_parse_duration_seconds" in served.text


def test_port_zero_serves_no_metrics() -> None:
    with telemetry.serve_metrics("nowhere.invalid", 0):
        pass
