from __future__ import annotations

import pytest

from rag.core.errors import InvalidRequestError
from stores.pgvector.lexical import lexical_query, pack_terms, signed, unpack_terms

EDGES = {0: 0.5, 999_999_999: 1.0, 1_000_000_000: 1.5, 2**31: 2.0, 2**32 - 1: 2.5}


def test_terms_of_the_whole_range_come_back_as_they_were() -> None:
    assert unpack_terms(signed(EDGES), pack_terms(EDGES)) == EDGES


def test_a_weight_of_zero_is_kept_as_a_term() -> None:
    assert unpack_terms(signed({7: 0.0}), pack_terms({7: 0.0})) == {7: 0.0}


def test_more_terms_than_a_sparse_vector_holds_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="16000"):
        pack_terms(dict.fromkeys(range(16_001), 1.0))


def test_heavy_terms_are_read_first_and_the_light_ones_bound_the_rest() -> None:
    query = lexical_query({1: 8.0, 2: 7.0, 3: 0.5, 4: 0.01})

    assert query.first == signed([1, 2])
    assert query.rest == signed([3, 4])
    assert query.rest_weight == pytest.approx(0.51)


def test_terms_of_one_weight_are_all_but_read_first() -> None:
    query = lexical_query(dict.fromkeys(range(8), 1.0))

    assert query.first == signed(range(8))
    assert query.rest == []


def test_a_single_term_is_read_first() -> None:
    assert lexical_query({3: 0.0}).first == signed([3])


def test_a_query_names_only_the_parts_that_its_terms_fall_into() -> None:
    assert set(lexical_query({5: 1.0, 2**32 - 1: 1.0}).weights) == {"weights0", "weights4"}
