"""A real `anchorage up` with real models, driven by the command line and over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

REPOSITORY = Path(__file__).resolve().parents[2]
COLLECTION = "examples"

_Found = TypeVar("_Found")


def until(condition: Callable[[], _Found | None], *, seconds: float = 120.0, what: str = "it") -> _Found:
    """Poll until the condition returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.02)
    return found


class Service:
    """A data folder and the service on it."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.data = folder / "data"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ANCHORAGE_")}
        self.environment = {**inherited, **settings, "ANCHORAGE_DATA_DIR": str(self.data)}
        self.first_readiness: dict[str, Any] = {}

    def run(self, *arguments: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return subprocess.run(
            [sys.executable, "-m", "rag.cli", *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Run a command and return its JSON document."""
        done = self.run(*arguments, "--json")
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    @property
    def owner(self) -> dict[str, Any]:
        return dict(json.loads((self.data / "run" / "up.lock").read_text()))

    @property
    def url(self) -> str:
        return str(self.owner["url"])

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """An HTTP client of the service."""
        with httpx.Client(base_url=self.url, timeout=150, trust_env=False) as client:
            yield client

    def post(self, route: str, **body: Any) -> httpx.Response:
        """POST to a route of the collection of examples."""
        with self.client() as client:
            return client.post(f"/v1/collections/{COLLECTION}/{route}", json=body)

    def answer(self, query: str, **options: Any) -> dict[str, Any]:
        """The answer to a question, at temperature 0."""
        response = self.post("answer", query=query, **{"temperature": 0, **options})
        assert response.status_code == 200, response.text
        return dict(response.json())

    def readiness(self) -> dict[str, Any]:
        """What ``/readyz`` says; empty where nothing answers."""
        try:
            return dict(httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).json())
        except httpx.HTTPError:
            return {}

    def status(self, dependency: str) -> str | None:
        """How one dependency is."""
        found: str | None = self.readiness().get("dependencies", {}).get(dependency, {}).get("status")
        return found

    def ready(self) -> bool:
        """Whether every dependency is ready."""
        return self.readiness().get("status") == "ready"

    def documents(self, collection: str = COLLECTION) -> dict[str, dict[str, Any]]:
        """Every document of a collection by its source."""
        with self.client() as client:
            listing = client.get(f"/v1/collections/{collection}/documents", params={"limit": 200}).json()["documents"]
        found = {document["source"]: document for document in listing}
        assert len(found) == len(listing), "a source stands in the list twice"
        return found

    def child(self, mark: str) -> psutil.Process | None:
        """The supervisor's child whose command line holds ``mark``."""
        for process in psutil.Process(self.owner["pid"]).children():
            try:
                if mark in " ".join(process.cmdline()):
                    return process
            except psutil.NoSuchProcess:
                continue
        return None

    def kill(self, mark: str) -> int:
        """Kill a child with SIGKILL; returns the id it had."""
        process = self.child(mark)
        assert process is not None, f"no {mark}"
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        return process.pid

    def vllm_metrics(self) -> dict[str, float]:
        """VLLM's own figures by name: requests that run, tokens written so far."""
        process = self.child("vllm.entrypoints")
        assert process is not None, "no vLLM"
        command = process.cmdline()
        page = httpx.get(
            f"http://127.0.0.1:{command[command.index('--port') + 1]}/metrics", timeout=20, trust_env=False
        )
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(page.text)
            for sample in family.samples
            if sample.name in {"vllm:num_requests_running", "vllm:generation_tokens_total"}
        }

    def tidy(self) -> None:
        """Stop it and remove its folder."""
        self.run("up", "--stop")
        shutil.rmtree(self.folder)


def assert_quotes_stand(service: Service, answer: Mapping[str, Any]) -> None:
    """Each citation's quote is the text of its document at [start, end)."""
    assert answer["citations"]
    with service.client() as client:
        for citation in answer["citations"]:
            text = client.get(f"/v1/collections/{COLLECTION}/documents/{citation['document']}/text").text
            assert citation["quote"]
            assert text[citation["start"] : citation["end"]] == citation["quote"]
