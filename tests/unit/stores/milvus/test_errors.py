from __future__ import annotations

import inspect

import grpc
import pytest
from pymilvus import exceptions as sdk

from rag.core.errors import (
    AnchorageError,
    CapacityError,
    CollectionNotFoundError,
    DeadlineExceededError,
    InvalidRequestError,
    StorageFullError,
    StoreError,
)
from stores.milvus.errors import CODES, STATUSES, store_errors, translate

CLASSES = [
    each
    for _, each in inspect.getmembers(sdk, inspect.isclass)
    if issubclass(each, Exception) and each.__module__ == sdk.__name__
]
BY_CLASS: dict[str, type[AnchorageError]] = {
    "CollectionNotExistException": CollectionNotFoundError,
    "ParamError": InvalidRequestError,
    "DataNotMatchException": InvalidRequestError,
    "DataTypeNotMatchException": InvalidRequestError,
    "DataTypeNotSupportException": InvalidRequestError,
    "PrimaryKeyException": InvalidRequestError,
    "PartitionKeyException": InvalidRequestError,
}


class _Failed(grpc.RpcError, grpc.Call):
    def __init__(self, status: grpc.StatusCode) -> None:
        self._status = status

    def code(self) -> grpc.StatusCode:
        return self._status


_Failed.__abstractmethods__ = frozenset()


def test_the_sdk_has_the_exceptions_that_the_table_was_made_for() -> None:
    assert len(CLASSES) > 20
    assert {each.__name__ for each in CLASSES} >= BY_CLASS.keys()


@pytest.mark.parametrize("kind", CLASSES)
def test_each_exception_of_the_sdk_becomes_an_error_of_the_port(kind: type[sdk.MilvusException]) -> None:
    assert type(translate(kind(message="x"))) is BY_CLASS.get(kind.__name__, StoreError)


@pytest.mark.parametrize("status", grpc.StatusCode)
def test_each_status_of_a_call_becomes_an_error_of_the_port(status: grpc.StatusCode) -> None:
    expected = STATUSES.get(status, StoreError)

    assert type(translate(_Failed(status))) is expected
    assert type(translate(sdk.MilvusException(status, "retries ran out"))) is expected


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (100, CollectionNotFoundError),
        (8, CapacityError),
        (7, StorageFullError),
        (1100, InvalidRequestError),
        (65535, StoreError),
    ],
)
def test_the_servers_code_decides_over_the_class(code: int, kind: type[AnchorageError]) -> None:
    assert type(translate(sdk.DescribeCollectionException(code, "x"))) is kind
    assert CODES.get(code, StoreError) is kind


def test_what_the_clock_and_the_network_raise_is_translated_too() -> None:
    assert type(translate(TimeoutError())) is DeadlineExceededError
    assert type(translate(grpc.FutureTimeoutError())) is DeadlineExceededError
    assert type(translate(ConnectionResetError("x"))) is StoreError


def test_a_message_is_one_short_line() -> None:
    with pytest.raises(StoreError) as caught, store_errors("c"):
        raise sdk.MilvusException(65535, "first " + "x" * 5000 + "\nsecond")

    assert len(caught.value.message) < 300
    assert "\n" not in caught.value.message
