"""What the environment may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.core.errors import ConfigurationError
from rag.settings import load_settings


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ANCHORAGE_PORT", "ANCHORAGE_HTTP__PORT"),
        ("ANCHORAGE_HTTP__PROT", "ANCHORAGE_HTTP__PORT"),
        ("ANCHORAGE_HTTP_PORT", "ANCHORAGE_HTTP__PORT"),
        ("ANCHORAGE_DATADIR", "ANCHORAGE_DATA_DIR"),
        ("anchorage_embedding_model", "ANCHORAGE_EMBEDDING__MODEL"),
        ("ANCHORAGE_LOG_LEVELS", "ANCHORAGE_LOG_LEVEL"),
    ],
)
def test_a_variable_that_sets_nothing_is_refused_with_the_nearest_one(
    monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.setenv(name, "9000")

    with pytest.raises(ConfigurationError, match=f"no setting {name.upper()}; did you mean {meant}?"):
        load_settings()


def test_every_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORAGE_XYZZY", "1")
    monkeypatch.setenv("ANCHORAGE_QQQQ", "1")

    with pytest.raises(ConfigurationError, match="ANCHORAGE_QQQQ; there is no setting ANCHORAGE_XYZZY"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANCHORAGE_HTTP__PORT", "9000"),
        ("anchorage_http__port", "9000"),
        ("ANCHORAGE_HTTP", '{"port": 9000}'),
        ("ANCHORAGE_STORE__OPTIONS__SCHEMA", "vectors"),
        ("ANCHORAGE_SHARED", "/tmp"),
        ("ANCHORAGE_TEST_POSTGRES_URL", "postgresql://"),
        ("ANCHORAGE", "1"),
        ("OTHER_PORT", "1"),
    ],
)
def test_what_sets_something_or_is_not_ours_is_taken(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)

    settings = load_settings()

    assert settings.http.port == (9000 if "http" in name.lower() else 8080)


def test_an_option_of_the_store_is_what_its_text_says(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"POOL_SIZE": "20", "TIMEOUT": "2.5", "TLS": "true", "URL": "http://host", "API_KEY": '"007"', "NAME": "库"}
    for name, value in given.items():
        monkeypatch.setenv(f"ANCHORAGE_STORE__OPTIONS__{name}", value)

    options = load_settings().store.options

    assert options == {
        "pool_size": 20, "timeout": 2.5, "tls": True, "url": "http://host", "api_key": "007", "name": "库",
    }  # fmt: skip


def test_texts_within_options_of_one_json_value_stay_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORAGE_STORE__OPTIONS", '{"schema": "1234", "api_key": "true", "timeout": 3}')

    assert load_settings().store.options == {"schema": "1234", "api_key": "true", "timeout": 3}


@pytest.mark.parametrize(("kind", "server"), [("qdrant", "url"), ("milvus", "uri")])
def test_a_store_without_a_server_has_its_engine_in_the_data_folder(tmp_path: Path, kind: str, server: str) -> None:
    embedded = load_settings(data_dir=tmp_path, store={"kind": kind, "options": {"timeout": 3}})
    served = load_settings(data_dir=tmp_path, store={"kind": kind, "options": {server: "http://host"}})

    assert embedded.store.embedded
    assert embedded.store_options(catalog_url="") == {"path": str(tmp_path / "stores" / kind), "timeout": 3}
    assert not served.store.embedded
    assert served.store_options(catalog_url="") == {server: "http://host"}


def test_pgvector_lives_in_the_postgres_of_the_catalog_unless_it_has_its_own() -> None:
    shared, own = load_settings(), load_settings(store={"options": {"url": "postgresql://own"}})

    assert shared.store_options(catalog_url="postgresql://all")["url"] == "postgresql://all"
    assert own.store_options(catalog_url="postgresql://all") == {"url": "postgresql://own"}
