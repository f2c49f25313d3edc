"""What the environment may say."""

from __future__ import annotations

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
