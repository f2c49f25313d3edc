"""Names, specs, cursors and histories as the catalog keeps them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.catalog.history import KEPT_ATTEMPTS, with_entry
from rag.catalog.rows import (
    collection_name,
    dump_cursor,
    dump_spec,
    read_cursor,
    read_spec,
)
from rag.core.errors import InvalidRequestError
from rag.core.records import CollectionSpec, HnswIndex, Metric
from rag.core.types import FieldType


@given(
    st.builds(
        CollectionSpec,
        dimension=st.integers(1, 4096),
        metric=st.sampled_from(Metric),
        index=st.builds(HnswIndex, m=st.integers(2, 100), ef_construction=st.integers(4, 1000)),
        filterable=st.dictionaries(st.sampled_from(["year", "年", "tags"]), st.sampled_from(FieldType)),
    )
)
def test_a_spec_comes_back_as_it_was(spec: CollectionSpec) -> None:
    assert read_spec(json.dumps(dump_spec(spec))) == spec


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_cursor_comes_back_as_it_was(moment: datetime, document: Any) -> None:
    assert read_cursor(dump_cursor(moment, document)) == (moment, document)


@given(st.text(max_size=60))
def test_any_other_text_is_no_cursor(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        read_cursor(text)


@pytest.mark.parametrize("name", ["papers", "论文 2026", "a.b-c_d", "😀", "x" * 128])
def test_names_in_any_script_are_kept(name: str) -> None:
    assert collection_name(name) == name


@pytest.mark.parametrize("name", ["", "a/b", "a\tb", "a\x7fb", "x" * 129])
def test_slashes_control_characters_and_wrong_lengths_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        collection_name(name)


def test_the_length_counts_after_normalisation() -> None:
    assert len(collection_name("e\u0301" * 128)) == 128


def test_a_history_keeps_its_newest_entries() -> None:
    history = with_entry([{"attempt": n} for n in range(30)], {"attempt": 30})

    assert [each["attempt"] for each in history.obj] == list(range(31 - KEPT_ATTEMPTS, 31))


def test_cursors_of_equal_times_differ_by_document() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    assert dump_cursor(moment, uuid4()) != dump_cursor(moment, uuid4())
