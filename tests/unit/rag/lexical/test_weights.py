"""The dot product of both sides is BM25."""

from __future__ import annotations

import math

import pytest

from rag.lexical import count_terms, document_weights, query_weights
from rag.lexical.analyzer import term_id


def test_the_dot_product_is_bm25() -> None:
    document = count_terms("alpha alpha beta gamma")
    query = count_terms("alpha delta")
    counts = {term_id("alpha"): 3, term_id("delta"): 1}

    weights = document_weights(document, average_length=8.0)
    asked = query_weights(query, chunks=10, document_counts=counts)
    score = sum(weights.get(term, 0.0) * weight for term, weight in asked.items())

    norm = 1.2 * (0.25 + 0.75 * 4 / 8)
    assert score == pytest.approx(math.log(1 + 7.5 / 3.5) * 2 * 2.2 / (2 + norm))


def test_without_an_average_a_text_counts_as_average() -> None:
    document = count_terms("one two three")

    assert document_weights(document, average_length=0.0) == document_weights(document, average_length=3.0)


def test_unknown_terms_are_dropped_from_a_query() -> None:
    assert query_weights(count_terms("nobody knows"), chunks=5, document_counts={}) == {}


def test_a_term_asked_twice_weighs_twice() -> None:
    counts = {term_id("red"): 1}

    once = query_weights(count_terms("red"), chunks=5, document_counts=counts)
    twice = query_weights(count_terms("red red"), chunks=5, document_counts=counts)

    assert twice[term_id("red")] == pytest.approx(2 * once[term_id("red")])


def test_counts_ahead_of_the_number_of_chunks_never_make_a_weight_negative() -> None:
    weights = query_weights(count_terms("red"), chunks=2, document_counts={term_id("red"): 9})

    assert all(weight > 0 for weight in weights.values())
