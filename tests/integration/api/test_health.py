"""Routes for supervisors and monitors over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from rag.core.errors import GenerationError, StoreError
from rag.core.ports import VectorStore
from rag.services import Services
from rag.testing import FakeEmbedder, Unavailable
from tests.integration.api.running import Running, problem, run

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_service_whose_parts_answer_is_ready(service: Running) -> None:
    response = await service.http.get("/readyz")

    dependencies = {name: each["status"] for name, each in response.json()["dependencies"].items()}
    assert (response.status_code, response.json()["status"]) == (200, "ready")
    assert dependencies == {
        "catalog": "ready",
        "store": "ready",
        "embedding": "ready",
        "rerank": "skipped",
        "generation": "ready",
    }


async def test_without_its_generator_a_service_is_degraded_but_serves(service: Running) -> None:
    service.generator.error = GenerationError("it is down")

    response = await service.http.get("/readyz")

    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["dependencies"]["generation"]["status"] == "unavailable"


async def test_a_model_that_loads_is_shown_as_loading(services: Services) -> None:
    embedder = FakeEmbedder(dimension=64)
    embedder.ready = False

    async with run(replace(services, embedder=embedder)) as service:
        response = await service.http.get("/readyz")

    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["dependencies"]["embedding"]["status"] == "loading"


async def test_without_its_store_a_service_is_unavailable_and_alive(services: Services) -> None:
    for store in (Unavailable(), Unavailable(StoreError("it is down: secret address"))):
        async with run(replace(services, store=cast("VectorStore", store))) as service:
            ready = await service.http.get("/readyz")
            alive = await service.http.get("/livez")

        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        assert ready.json()["dependencies"]["store"]["status"] == "unavailable"
        assert ready.json()["dependencies"]["catalog"]["status"] == "ready"
        assert "secret" not in ready.text
        assert alive.status_code == 200


async def test_metrics_count_requests_by_route_and_jobs_by_state(service: Running) -> None:
    path = await service.collection()
    await service.http.post(f"{path}/documents", json={"text": "t", "source": "a.txt"})

    response = await service.http.get("/metrics")

    assert response.status_code == 200
    assert 'rag_http_requests_total{method="POST",route="/v1/collections/{collection}/documents"' in response.text
    assert 'rag_jobs{state="todo"}' in response.text
    assert 'rag_jobs{state="failed"} 0.0' in response.text
    assert path not in response.text


async def test_jobs_are_listed_with_their_counts(service: Running) -> None:
    path = await service.collection()
    accepted = await service.http.post(f"{path}/documents", json={"text": "t", "source": "a.txt"})
    id = accepted.json()["documents"][0]["id"]

    listing = (await service.http.get("/v1/jobs", params={"limit": 500})).json()
    stuck = (await service.http.get("/v1/jobs", params={"stuck": "true"})).json()

    assert id in [job["document"] for job in listing["jobs"]]
    assert listing["counts"]["todo"] >= 1
    assert stuck["jobs"] == []


async def test_a_faulty_question_about_jobs_is_refused(service: Running) -> None:
    response = await service.http.get("/v1/jobs", params={"stuck": "perhaps"})

    assert problem(response) == (422, "invalid_request")
