from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace

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
