"""How the children are run: their commands, their configuration by the environment, when they are ready."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from rag.core.errors import ConfigurationError, UnknownStoreError
from rag.settings import Settings
from rag.supervision.addresses import base_url, require_free
from rag.supervision.child import Child, Plan, Report
from rag.supervision.models import vllm_interpreter
from rag.supervision.preparation import prepare_in_child
from rag.supervision.process import Launch
from rag.supervision.vllm import HOST, QUIET_THREADS, Accelerator, choose_vllm
from stores.registry import check_store, installed_kinds

API, WORKER, VLLM, MODELS = "api", "worker", "vllm", "models"

_WORKER_SETTLES = 1.0
_WORKER_GRACE = 35.0
_VLLM_GRACE = 10.0
_AFTER_DRAIN = 5.0
_EXTRACTIVE = "answers are extractive"
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where this run listens; ports are fixed for as long as it lasts."""

    data_dir: Path
    url: str
    port: int
    vllm_port: int | None

    def log(self, name: str) -> Path:
        """The log file of a child."""
        return self.data_dir / "logs" / f"{name}.log"


def choose_places(settings: Settings) -> Places:
    """Find the ports free, or raise ``PortTakenError`` before anything is started."""
    port = require_free(settings.http.host, settings.http.port)
    return Places(
        data_dir=settings.data_dir.absolute(),
        url=base_url(settings.http.host, port),
        port=port,
        vllm_port=require_free(HOST, settings.generation.vllm_port) if vllm_interpreter(settings) else None,
    )


def require_store(settings: Settings) -> None:
    """Raise ``UnknownStoreError`` unless a store of this kind is installed.

    Of an embedded engine, which this process will own, everything is checked: also raises ``MissingExtraError``
    and ``ConfigurationError``.
    """
    store, kinds = settings.store, installed_kinds()
    if store.kind not in kinds:
        raise UnknownStoreError(f"no store of kind {store.kind!r} is installed; there are: {', '.join(kinds)}")
    if store.embedded:
        check_store(store.kind, settings.store_options(catalog_url=""))


def describe_store(settings: Settings) -> str:
    """Say in one line which engine keeps the vectors, and where."""
    store = settings.store
    if store.embedded:
        return f"{store.kind}, the embedded engine in {settings.store_options(catalog_url='')['path']}"
    if store.kind == "pgvector":
        return f"pgvector in {'a Postgres of its own' if store.options.get('url') else 'the Postgres of the catalog'}"
    return f"{store.kind} as configured"


def common_environment(places: Places) -> Mapping[str, str]:
    """Return the variables that every child needs, whatever it was that chose them."""
    return {"ANCHORAGE_DATA_DIR": str(places.data_dir), "ANCHORAGE_HTTP__PORT": str(places.port)}


def _command(*arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", "rag.cli", *arguments)


class Plans:
    """The plans of the children. Their configuration goes to them by the environment."""

    def __init__(
        self,
        settings: Settings,
        places: Places,
        *,
        catalog_url: str,
        accelerator: Accelerator,
        http: httpx.AsyncClient,
        report: Report,
        refused: Callable[[ConfigurationError], None],
        no_generation: Callable[[str], None],
    ) -> None:
        self.places = places
        self._settings = settings
        self._accelerator = accelerator
        self._http = http
        self._report = report
        self._refused = refused
        self._no_generation = no_generation
        self._defaults = {**QUIET_THREADS, **_OFFLINE}
        self._environment = {**common_environment(places), "ANCHORAGE_CATALOG__URL": catalog_url}
        if places.vllm_port:
            self._environment["ANCHORAGE_GENERATION__URL"] = f"http://{HOST}:{places.vllm_port}/v1"

    def api(self) -> Plan:
        """The API, which also holds the models."""
        return Plan(
            name=API,
            launch=self._launcher("serve"),
            probe=self._answers(f"{self.places.url}/readyz"),
            log=self.places.log(API),
            where=self.places.url,
            grace=self._settings.http.drain_timeout + _AFTER_DRAIN,
            refused=self._refused,
        )

    def worker(self, api: Child) -> Plan:
        """The ingest worker; it embeds through the API's process, and so starts after it."""

        async def launch() -> Launch:
            await api.ready.wait()
            return await self._launcher("worker")()

        async def probe() -> bool:
            await asyncio.sleep(_WORKER_SETTLES)
            return True

        return Plan(
            name=WORKER,
            launch=launch,
            probe=probe,
            log=self.places.log(WORKER),
            grace=_WORKER_GRACE,
            refused=self._refused,
        )

    def vllm(self) -> Plan:
        """The generator."""
        return Plan(
            name=VLLM,
            launch=self._launch_vllm,
            probe=self._answers(f"http://{HOST}:{self.places.vllm_port}/health"),
            log=self.places.log(VLLM),
            where=f"{self._settings.generation.model} on the {self._accelerator.upper()}",
            grace=_VLLM_GRACE,
            resigned=_EXTRACTIVE,
            troubled=self._no_generation,
        )

    def why_no_vllm(self) -> str:
        """Say in one line why none is started here."""
        generation = self._settings.generation
        if generation.url:
            return f"not started here: answers come from {generation.url}"
        if not generation.managed:
            return f"not started here, as configured: {_EXTRACTIVE}"
        return f"no vLLM here ({generation.vllm_python} does not exist): {_EXTRACTIVE}"

    def _launcher(self, command: str) -> Callable[[], Awaitable[Launch]]:
        async def launch() -> Launch:
            return Launch(arguments=_command(command), environment=self._environment, defaults=self._defaults)

        return launch

    async def _launch_vllm(self) -> Launch:
        generation = self._settings.generation
        python = vllm_interpreter(self._settings)
        if python is None:
            raise ConfigurationError(f"{generation.vllm_python} does not exist")
        self._report(VLLM, f"starting on the {self._accelerator.upper()}; until it is ready {_EXTRACTIVE}")
        folders = await prepare_in_child(
            [generation.model],
            environment=common_environment(self.places),
            report=lambda line: self._report(MODELS, line),
        )
        return choose_vllm(
            accelerator=self._accelerator,
            python=python,
            model=folders[generation.model],
            served_name=generation.model,
            port=self.places.vllm_port or 0,
            context_tokens=generation.context_tokens,
            api_key=generation.api_key.get_secret_value() if generation.api_key else None,
            arguments=generation.vllm_arguments,
        )

    def _answers(self, url: str) -> Callable[[], Awaitable[bool]]:
        async def probe() -> bool:
            try:
                return (await self._http.get(url)).is_success
            except httpx.HTTPError:
                return False

        return probe
