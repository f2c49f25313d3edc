"""Whether each thing that the service depends on answers, asked of all at once and with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rag.core.errors import AnchorageError
from rag.embedding.host import Loadable
from rag.services import Services

PING_SECONDS = 1.0
REQUIRED = ("catalog", "store")

Status: TypeAlias = Literal["ready", "loading", "unavailable", "skipped"]
Overall: TypeAlias = Literal["ready", "degraded", "unavailable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """How one dependency is: ``skipped`` is not configured, ``loading`` will be ready without help.

    ``detail`` says what is wrong, and of the store which one it is.
    """

    status: Status
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The service as a whole: without a model it is degraded, without catalog or store it is unavailable."""

    status: Overall
    dependencies: Mapping[str, Dependency]


async def check_readiness(services: Services, *, draining: bool) -> Readiness:
    """Ask every dependency; takes at most :data:`PING_SECONDS`."""
    catalog, store, generation = await asyncio.gather(
        _ping(services.catalog.ping), _ping(services.store.ping), _generation(services)
    )
    dependencies = {
        "catalog": catalog,
        "store": replace(store, detail=": ".join(filter(None, (services.store.kind, store.detail)))),
        "embedding": _model(services.embedder),
        "rerank": _model(services.scorer),
        "generation": generation,
    }
    return Readiness(status="unavailable" if draining else _overall(dependencies), dependencies=dependencies)


async def _ping(ping: Callable[[], Awaitable[None]]) -> Dependency:
    try:
        async with asyncio.timeout(PING_SECONDS):
            await ping()
    except TimeoutError:
        return Dependency(status="unavailable", detail=f"no answer within {PING_SECONDS:g} s")
    except AnchorageError as error:
        return Dependency(status="unavailable", detail=error.code)
    return Dependency(status="ready")


async def _generation(services: Services) -> Dependency:
    if services.generator is None:
        return Dependency(status="skipped")
    return await _ping(services.generator.ping)


def _model(model: Loadable | None) -> Dependency:
    if model is None:
        return Dependency(status="skipped")
    if model.ready:
        return Dependency(status="ready")
    if model.error is not None:
        return Dependency(status="unavailable", detail="the model could not be loaded; see the log")
    return Dependency(status="loading")


def _overall(dependencies: Mapping[str, Dependency]) -> Overall:
    if any(dependencies[name].status != "ready" for name in REQUIRED):
        return "unavailable"
    usable = all(dependency.status in ("ready", "skipped") for dependency in dependencies.values())
    return "ready" if usable else "degraded"
