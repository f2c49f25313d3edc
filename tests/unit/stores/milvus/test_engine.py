from __future__ import annotations

import pytest

from rag.core.errors import StoreError
from rag.core.records import Feature, Quantization
from stores.milvus.engine import capabilities_of, engine_of


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        ("v2.3.5-lite", {Feature.LEXICAL, Quantization.HALF, Quantization.INT8}),
        ("v2.4.0", {Quantization.INT8}),
        ("2.5.4", set()),
        ("v3.0", set()),
        ("milvus_lite-3.2.2", {Quantization.HALF}),
    ],
)
def test_a_version_offers_what_it_has_and_says_why_not_where_it_has_not(
    version: str, missing: set[Feature | Quantization]
) -> None:
    offered = capabilities_of(engine_of(version))

    assert set(offered.reasons) == missing
    assert {*Feature, *Quantization} - offered.features - offered.quantizations == missing
    assert all(offered.reasons.values())


def test_before_the_server_has_answered_nothing_is_promised() -> None:
    assert set(capabilities_of(None).reasons) == {Feature.LEXICAL, Quantization.HALF, Quantization.INT8}


@pytest.mark.parametrize("version", ["v2.2.16", "2.3.1", "unknown", ""])
def test_a_version_that_is_too_old_or_says_nothing_is_an_error(version: str) -> None:
    with pytest.raises(StoreError):
        engine_of(version)


@pytest.mark.parametrize(
    ("version", "templates", "partition_keys", "squared"),
    [("v2.3.5", False, False, True), ("2.5.0", True, True, True), ("milvus_lite-3.2.2", False, False, False)],
)
def test_a_version_is_treated_by_what_it_does(
    version: str, *, templates: bool, partition_keys: bool, squared: bool
) -> None:
    engine = engine_of(version)

    assert (engine.templates, engine.partition_keys, engine.squared_distances) == (templates, partition_keys, squared)
