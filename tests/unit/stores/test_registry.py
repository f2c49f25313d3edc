from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from rag.core.errors import ConfigurationError, MissingExtraError, UnknownStoreError
from stores import registry
from stores.memory import MemoryStore


def _offer(name: str, value: str, owner: str) -> EntryPoint:
    entry = EntryPoint(name=name, value=value, group=registry.GROUP)
    vars(entry)["dist"] = SimpleNamespace(name=owner)
    return entry


def _install(monkeypatch: pytest.MonkeyPatch, *offers: EntryPoint) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda **given: EntryPoints(offers).select(**given))


async def test_a_store_is_opened_by_its_name() -> None:
    async with registry.open_store("memory", {}) as store:
        assert isinstance(store, MemoryStore)


def test_the_installed_kinds_are_listed() -> None:
    assert {"memory", "pgvector"} <= set(registry.installed_kinds())


def test_an_unknown_kind_is_answered_with_the_installed_ones() -> None:
    with pytest.raises(UnknownStoreError, match=r"'parrot'.*memory.*pgvector"):
        registry.open_store("parrot", {})


def test_two_distributions_that_offer_one_name_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _offer("memory", "one:open", "dist-one"), _offer("memory", "two:open", "dist-two"))

    with pytest.raises(ConfigurationError, match="dist-one and dist-two"):
        registry.open_store("memory", {})


def test_a_missing_package_is_answered_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _offer("parrot", "no_such_module:open_store [birds]", "dist-one"))

    with pytest.raises(MissingExtraError, match=r"dist-one\[birds\]"):
        registry.open_store("parrot", {})


def test_an_extra_is_named_as_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _offer("qdrant", "no_such_sdk.client:open_store [qdrant]", "anchorage"))

    with pytest.raises(MissingExtraError, match=r"pip install 'anchorage\[qdrant\]'.*no_such_sdk"):
        registry.check_store("qdrant", {})


@asynccontextmanager
async def open_without_sdk(options: Mapping[str, Any]) -> AsyncIterator[None]:
    """A factory that imports its SDK no sooner than it must."""
    del options
    raise ModuleNotFoundError("No module named 'no_such_sdk'")
    yield


async def test_what_is_missed_no_sooner_than_at_the_opening_names_the_extra_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _install(monkeypatch, _offer("qdrant", "lazy_store:open_store [qdrant]", "anchorage"))
    monkeypatch.setitem(sys.modules, "lazy_store", SimpleNamespace(open_store=open_without_sdk))

    with pytest.raises(MissingExtraError, match=r"pip install 'anchorage\[qdrant\]'.*no_such_sdk"):
        async with registry.open_store("qdrant", {}):
            pass


def test_options_are_checked_without_opening_a_store() -> None:
    registry.check_store("pgvector", {"url": "postgresql://nowhere"})

    with pytest.raises(ConfigurationError, match="unknown option colour"):
        registry.check_store("pgvector", {"url": "postgresql://nowhere", "colour": "red"})


@pytest.mark.parametrize(
    ("kind", "module", "embedded", "served"),
    [
        ("qdrant", "qdrant_edge", {"path": "/data"}, {"url": "http://host"}),
        ("milvus", "milvus_lite", {"path": "/data"}, {"uri": "http://host:19530"}),
    ],
)
def test_a_missing_engine_is_named_with_its_extra_where_the_options_need_it(
    monkeypatch: pytest.MonkeyPatch, kind: str, module: str, embedded: dict[str, str], served: dict[str, str]
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == module else find_spec(name))

    registry.check_store(kind, served)
    with pytest.raises(MissingExtraError, match=rf"anchorage\[{kind}\].*{module}"):
        registry.check_store(kind, embedded)


@pytest.mark.parametrize("factory", ["json.decoder:JSONDecoder", "stores.memory:open_store"])
def test_a_store_that_offers_no_check_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, factory: str) -> None:
    _install(monkeypatch, _offer("parrot", factory, "dist-one"))

    registry.check_store("parrot", {"colour": "red"})


def test_a_check_of_an_unknown_kind_lists_the_installed_ones() -> None:
    with pytest.raises(UnknownStoreError, match=r"'parrot'.*memory.*pgvector"):
        registry.check_store("parrot", {})


def test_only_the_named_store_is_imported() -> None:
    code = (
        "import sys; from stores.registry import installed_kinds, open_store; installed_kinds();"
        "open_store('memory', {}); sys.exit(any(name.startswith('psycopg') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_an_option_that_the_memory_store_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="url"):
        async with registry.open_store("memory", {"url": "x"}):
            pass
