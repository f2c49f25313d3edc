"""Errors as problem documents."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError, create_model
from starlette.exceptions import HTTPException

from rag.api.problems import ClientGoneError, problem_of
from rag.core import errors
from rag.core.errors import AnchorageError


def _classes(cls: type[AnchorageError]) -> Iterator[type[AnchorageError]]:
    yield cls
    for each in cls.__subclasses__():
        yield from _classes(each)


@pytest.mark.parametrize(
    "cls", sorted(set(_classes(errors.RequestError)) | set(_classes(errors.UpstreamError)), key=str)
)
def test_every_error_of_a_request_keeps_its_status_code_and_message(cls: type[AnchorageError]) -> None:
    error = cls("what happened")

    problem = problem_of(error)

    assert (problem.status, problem.code, problem.detail) == (cls.status, cls.code, "what happened")
    assert problem.title
    assert not problem.title.endswith(".")


@pytest.mark.parametrize(
    "error", [errors.StoreError(), errors.OverloadedError(), errors.CapacityError(retry_after=2.2)]
)
def test_a_retryable_error_says_when_to_try_again(error: AnchorageError) -> None:
    response = problem_of(error).response("r-1")

    assert int(response.headers["retry-after"]) == (3 if error.retry_after else 1)


def test_an_error_that_trying_again_does_not_help_has_no_retry_after() -> None:
    response = problem_of(errors.CollectionNotFoundError()).response("r-1")

    assert "retry-after" not in response.headers


@pytest.mark.parametrize(
    "error",
    [RuntimeError("secret"), errors.ConfigurationError("secret"), errors.ParseError("secret"), KeyError("secret")],
)
def test_what_is_not_the_callers_business_is_internal_and_says_nothing_more(error: Exception) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.code) == (500, "internal")
    assert "secret" not in problem.detail


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (HTTPException(404), 404, "not_found"),
        (HTTPException(405), 405, "method_not_allowed"),
        (HTTPException(413), 413, "too_large"),
        (HTTPException(400), 400, "invalid_request"),
        (TimeoutError(), 504, "deadline_exceeded"),
        (ClientGoneError(), 499, "client_gone"),
    ],
)
def test_errors_of_the_framework_get_a_stable_code(error: Exception, status: int, code: str) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.code) == (status, code)


def test_a_validation_error_names_the_member_and_the_fault() -> None:
    class Body(BaseModel):
        limit: int

    with pytest.raises(ValidationError) as caught:
        Body.model_validate({"limit": "many"})

    problem = problem_of(caught.value)

    assert (problem.status, problem.code) == (422, "invalid_request")
    assert problem.detail.startswith("limit: ")
    assert "many" not in problem.detail


@pytest.mark.parametrize("member", ["query", "body", "path"])
def test_a_member_with_the_name_of_a_place_is_named(member: str) -> None:
    inside = create_model("Inside", **{member: (int, ...)})

    with pytest.raises(ValidationError) as caught:
        inside.model_validate({})

    assert problem_of(caught.value).detail == f"{member}: Field required"


def test_a_parameter_is_named_without_its_place() -> None:
    fault = {"loc": ("query", "limit"), "msg": "Input should be a valid integer", "type": "int_parsing"}

    problem = problem_of(RequestValidationError([fault]))

    assert problem.detail == "limit: Input should be a valid integer"


def test_the_response_is_a_problem_document_with_the_requests_id() -> None:
    response = problem_of(errors.DocumentNotFoundError()).response("r-1")

    assert response.media_type == "application/problem+json"
    assert json.loads(response.body) == {
        "type": "urn:anchorage:problem:document_not_found",
        "title": "No such document",
        "status": 404,
        "code": "document_not_found",
        "detail": "No such document.",
        "request_id": "r-1",
    }
