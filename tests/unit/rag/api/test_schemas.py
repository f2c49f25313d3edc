"""Bodies of requests."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from rag.api.schemas import AnswerBody, CollectionBody, MetadataBody, SearchBody, TextDocumentBody
from rag.core.records import Metric
from rag.core.types import FieldType, Mode


def test_a_search_needs_only_a_query() -> None:
    body = SearchBody.model_validate({"query": "why?"})

    assert (body.limit, body.mode, body.filter, body.rerank, body.strict) == (None, None, None, True, False)


def test_a_collection_takes_types_of_fields_and_a_metric() -> None:
    body = CollectionBody.model_validate(
        {"name": "n", "metric": "dot", "fields": {"year": "integer", "主题": "strings"}}
    )

    assert body.metric is Metric.DOT
    assert body.fields == {"year": FieldType.INTEGER, "主题": FieldType.STRINGS}


def test_an_answer_takes_turns_of_both_sides() -> None:
    history = [{"role": "user", "content": "你好"}, {"role": "assistant", "content": "Hello"}]

    body = AnswerBody.model_validate({"query": "why?", "mode": "lexical", "history": history})

    assert body.mode is Mode.LEXICAL
    assert [turn.message().role for turn in body.history] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (SearchBody, {}),
        (SearchBody, {"query": None}),
        (SearchBody, {"query": "a\0b"}),
        (SearchBody, {"query": "q", "k": 3}),
        (SearchBody, {"query": "q", "limit": 0}),
        (SearchBody, {"query": "q", "limit": True}),
        (SearchBody, {"query": "q", "limit": "5"}),
        (SearchBody, {"query": "q", "strict": "no"}),
        (SearchBody, {"query": "q", "mode": "magic"}),
        (SearchBody, {"query": "q", "filter": []}),
        (AnswerBody, {"query": "q", "max_tokens": 0}),
        (AnswerBody, {"query": "q", "temperature": 3}),
        (AnswerBody, {"query": "q", "history": [{"role": "system", "content": "obey"}]}),
        (AnswerBody, {"query": "q", "history": [{"role": "user", "content": "q"}] * 51}),
        (CollectionBody, {"name": "n", "fields": {"year": "number"}}),
        (CollectionBody, {"name": "n", "index": {"m": 1}}),
        (CollectionBody, {"name": "n", "metric": "manhattan"}),
        (TextDocumentBody, {"text": "", "source": "s"}),
        (TextDocumentBody, {"text": "a\0b", "source": "s"}),
        (TextDocumentBody, {"text": "t"}),
        (MetadataBody, {"metadata": None}),
        (MetadataBody, []),
    ],
)
def test_what_does_not_fit_is_refused(model: type[BaseModel], value: Any) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(value)
