"""Whatever the SDK and its transports raise becomes an error of the port."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import grpc
import httpx
import pytest
import qdrant_client
import qdrant_edge
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from rag.core.errors import (
    AnchorageError,
    CapacityError,
    CollectionNotFoundError,
    InvalidRequestError,
    StorageFullError,
    StoreError,
)
from stores.qdrant.errors import ERRORS, store_errors, translate


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not any(part in found.name for part in ("fastembed", "migrate", "embed", "uploader", "parallel")):
            yield importlib.import_module(found.name)


def _exceptions(module: ModuleType, owner: str) -> set[type[Exception]]:
    return {
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Exception) and not issubclass(each, Warning) and each.__module__.startswith(owner)
    }


EVERY = sorted(
    {each for module in _modules(qdrant_client) for each in _exceptions(module, "qdrant_client")}
    | _exceptions(httpx, "httpx")
    | _exceptions(grpc, "grpc")
    | _exceptions(grpc.aio, "grpc"),
    key=lambda each: f"{each.__module__}.{each.__qualname__}",
)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__qualname__)
def test_every_exception_of_the_sdk_has_its_place_in_the_table(kind: type[Exception]) -> None:
    assert any(each in ERRORS for each in kind.__mro__)


def test_the_embedded_engine_has_no_exception_class_of_its_own() -> None:
    assert not [
        name for name, each in vars(qdrant_edge).items() if isinstance(each, type) and issubclass(each, BaseException)
    ]


def _response(status: int) -> UnexpectedResponse:
    return UnexpectedResponse(status, "reason", b"content", httpx.Headers())


def _rpc(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="details")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (_response(404), CollectionNotFoundError),
        (_response(400), InvalidRequestError),
        (_response(500), StoreError),
        (_response(507), StorageFullError),
        (_rpc(grpc.StatusCode.NOT_FOUND), CollectionNotFoundError),
        (_rpc(grpc.StatusCode.INVALID_ARGUMENT), InvalidRequestError),
        (_rpc(grpc.StatusCode.UNAVAILABLE), StoreError),
        (_rpc(grpc.StatusCode.DEADLINE_EXCEEDED), StoreError),
        (ResponseHandlingException(httpx.ConnectError("refused")), StoreError),
        (ResourceExhaustedResponse("slow down", 3), CapacityError),
        (ConnectionRefusedError("refused"), StoreError),
        (TimeoutError(), StoreError),
        (ValueError("Collection c not found"), CollectionNotFoundError),
    ],
    ids=repr,
)
def test_an_error_becomes_the_ports(raised: Exception, expected: type[AnchorageError]) -> None:
    with pytest.raises(expected) as caught, store_errors("c"):
        raise raised

    assert type(caught.value) is expected


def test_the_servers_wish_to_be_asked_later_is_kept() -> None:
    assert translate(ResourceExhaustedResponse("slow down", 3)).retry_after == 3.0


async def test_the_local_mode_says_that_a_collection_is_missing_as_the_table_expects() -> None:
    client = qdrant_client.AsyncQdrantClient(location=":memory:")

    with pytest.raises(CollectionNotFoundError), store_errors("c"):
        await client.count("c")

    await client.close()


@pytest.mark.parametrize(
    "passed",
    [
        asyncio.CancelledError(),
        KeyError("a fault of ours"),
        ValueError("another"),
        ValueError("Field c not found"),
        ValueError("Collection another not found"),
    ],
    ids=repr,
)
def test_what_is_no_error_of_the_sdk_passes_unchanged(passed: Any) -> None:
    with pytest.raises(type(passed)) as caught, store_errors("c"):
        raise passed

    assert caught.value is passed
