"""Everything that can be configured, read once by the composition root and nowhere else.

Environment variables carry the prefix ``ANCHORAGE_`` and ``__`` between levels, such as
``ANCHORAGE_HTTP__PORT=9000``. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from rag.core.errors import ConfigurationError
from rag.core.types import EVERY_LANGUAGE, Mode

MEBIBYTE = 2**20

_PREFIX = "ANCHORAGE_"
_LEVEL = "__"
_NOT_OURS = ("ANCHORAGE_SHARED", "ANCHORAGE_TEST_")
"""What tests and tools are told by the environment begins with one of these."""


_ELSEWHERE = {"qdrant": {"url", "location", "socket"}, "milvus": {"uri"}}
"""The kinds that have an embedded engine, and the options that name another one in its place."""


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HttpSettings(_Group):
    """Where the service listens and what it accepts."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    max_upload_bytes: int = Field(100 * MEBIBYTE, ge=1)
    max_json_bytes: int = Field(2 * MEBIBYTE, ge=1024)
    drain_timeout: float = Field(10.0, ge=0)


class CatalogSettings(_Group):
    """The Postgres that holds the catalog and the job queue; without a URL an embedded one is used."""

    url: SecretStr | None = None
    pool_size: int = Field(10, ge=2)
    timeout: float = Field(5.0, gt=0)


class StoreSettings(_Group):
    """Which vector store, by its installed kind; each store checks its own options.

    ``pgvector`` without ``options.url`` uses the catalog's Postgres; ``qdrant`` without ``options.url`` and
    ``milvus`` without ``options.uri`` run their embedded engine in the data folder. An option that reads as a
    JSON number, boolean, list or object is one: ``…__OPTIONS__TIMEOUT=5``; a text of digits is quoted: ``"5"``.
    """

    kind: str = "pgvector"
    options: dict[str, Any] = Field(default_factory=dict)
    ef_search: int = Field(100, ge=10, le=1000)

    @field_validator("options")
    @classmethod
    def _read_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        return {name: _json_value(value) if _is_variable(name, value) else value for name, value in options.items()}

    @property
    def embedded(self) -> bool:
        """Whether the store's engine runs in the data folder, in a process of ours."""
        return self.kind in _ELSEWHERE and _ELSEWHERE[self.kind].isdisjoint(self.options)


class EmbeddingSettings(_Group):
    """The embedding model: a known name, a folder, or a name in the local hub cache."""

    model: str = "multilingual-e5-small"
    precision: Literal["auto", "fp32", "bf16", "fp16", "int8"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = Field(0, ge=0, description="0: all cores")
    max_batch: int = Field(32, ge=1, le=512)
    batch_tokens: int = Field(4096, ge=512, description="tokens of one batch, padding included")
    queue: int = Field(2048, ge=1, description="texts that may wait")
    timeout: float = Field(30.0, gt=0)


class RerankSettings(_Group):
    """The cross-encoder and how its order is mixed with the first stage's."""

    enabled: bool = True
    model: str = "auto"
    languages: frozenset[str] = frozenset({EVERY_LANGUAGE})
    precision: Literal["auto", "fp32", "bf16", "fp16", "int8"] = "auto"
    depth: int = Field(20, ge=1, le=200)
    weight: float = Field(0.5, ge=0, le=1, description="share of the cross-encoder in the final order")
    timeout: float = Field(3.0, gt=0)


class GenerationSettings(_Group):
    """The chat model. Without a URL, ``anchorage up`` starts vLLM from ``vllm_python`` where it exists."""

    url: str | None = None
    fallback_url: str | None = None
    api_key: SecretStr | None = None
    model: str = "smollm2-135m-instruct"
    languages: frozenset[str] = frozenset({"en"})
    context_tokens: int = Field(2048, ge=256)
    max_tokens: int = Field(256, ge=1)
    temperature: float = Field(0.0, ge=0, le=2)
    connect_timeout: float = Field(2.0, gt=0)
    vllm_python: Path = Path(".venv-vllm/bin/python")
    vllm_port: int = Field(8081, ge=0, le=65535)
    vllm_arguments: list[str] = Field(default_factory=list)
    managed: bool = True


class BreakerSettings(_Group):
    """When a model that fails is left alone, and for how long."""

    failures: int = Field(5, ge=1, description="in a row")
    recovery: float = Field(60.0, gt=0, description="seconds; doubled after each probe that failed, up to 300")


class SearchSettings(_Group):
    """Defaults and limits of the query path."""

    mode: Mode = Mode.HYBRID
    limit: int = Field(10, ge=1, le=200)
    max_limit: int = Field(200, ge=1)
    max_query_characters: int = Field(8192, ge=1)
    deadline: float = Field(5.0, gt=0)
    answer_deadline: float = Field(30.0, gt=0)
    max_deadline: float = Field(120.0, gt=0)
    answer_hits: int = Field(5, ge=1, le=50)
    candidates: int = Field(50, ge=1, le=1000, description="first-stage hits before reranking")


class IngestSettings(_Group):
    """The worker: how documents are parsed, chunked and retried."""

    concurrency: int = Field(2, ge=1, le=64)
    full_parse_seconds: float = Field(5.0, gt=0, description="then a summary is served")
    fast_parse_start_seconds: float = Field(3.0, ge=0, description="when the summary is begun beside the full parse")
    summary_seconds: float = Field(15.0, gt=0, description="from the start; then a fragment is served")
    fragment_seconds: float = Field(3.0, gt=0, description="what the last tier may take")
    summary_ttl: float = Field(3600.0, ge=0, description="how long equal bytes get the same summary")
    fragment_ttl: float = Field(300.0, ge=0, description="how long equal bytes get the same fragment")
    empty_ttl: float = Field(60.0, ge=0, description="how long equal bytes that parsed to nothing are not tried again")
    promotion_seconds: float = Field(300.0, gt=0, description="what a full parse in the background may take")
    promotion_pause: float = Field(30.0, ge=0, description="before the first; doubled after each that failed")
    promotion_attempts: int = Field(5, ge=0, description="0: degraded documents stay as they are")
    promotions: int = Field(1, ge=1, le=16, description="full parses in the background at a time")
    ocr_seconds: float = Field(60.0, ge=0, description="what tesseract may take for a document without text; 0: no OCR")
    ocr_languages: str = Field(
        "", pattern=r"^(\w+(\+\w+)*)?$", description="such as chi_sim+eng; empty: up to 3 common ones"
    )
    held_bytes: int = Field(512 * MEBIBYTE, ge=MEBIBYTE, description="files that a worker holds in memory at once")
    parse_memory_bytes: int = Field(2048 * MEBIBYTE, ge=64 * MEBIBYTE)
    parse_output_bytes: int = Field(64 * MEBIBYTE, ge=MEBIBYTE)
    max_attempts: int = Field(5, ge=1)
    queued_documents: int = Field(100_000, ge=1, description="uploads beyond are refused with 429")
    queued_bytes: int = Field(16 * 1024 * MEBIBYTE, ge=MEBIBYTE, description="uploads beyond are refused with 429")
    chunker: Literal["recursive", "semantic", "fixed"] = "recursive"
    chunk_header: bool = Field(default=False, description="embed each chunk below its title and headings")
    chunk_tokens: int = Field(360, ge=32, le=8192, description="the reranker reads 384 with the query")
    chunk_min_tokens: int = Field(32, ge=1)
    chunk_overlap_tokens: int = Field(32, ge=0)
    stalled_after: float = Field(30.0, gt=0)
    publish_interval: float = Field(1.0, ge=0)
    metrics_port: int = Field(0, ge=0, le=65535, description="where the worker's own metrics are served; 0: nowhere")


class Settings(BaseSettings):
    """The whole configuration of one service."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_nested_delimiter=_LEVEL, extra="forbid", frozen=True, env_file=None
    )

    data_dir: Path = Path("anchorage-data")
    models_dir: Path | None = None
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    http: HttpSettings = HttpSettings()
    catalog: CatalogSettings = CatalogSettings()
    store: StoreSettings = StoreSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    rerank: RerankSettings = RerankSettings()
    generation: GenerationSettings = GenerationSettings()
    breaker: BreakerSettings = BreakerSettings()
    search: SearchSettings = SearchSettings()
    ingest: IngestSettings = IngestSettings()

    @property
    def models_folder(self) -> Path:
        """Where prepared models lie: ``models_dir``, or ``models`` in the data folder."""
        return self.models_dir or self.data_dir / "models"

    def store_options(self, *, catalog_url: str) -> dict[str, Any]:
        """The options that the configured store is opened with, the unconfigured ones by what is here."""
        store, options = self.store, self.store.options
        if store.embedded:
            return {"path": str(self.data_dir.absolute() / "stores" / store.kind), **options}
        if store.kind == "pgvector" and "url" not in options:
            return {
                "url": catalog_url,
                "pool_size": self.catalog.pool_size,
                "timeout": self.catalog.timeout,
                **options,
            }
        return dict(options)


def _is_variable(option: str, value: Any) -> bool:
    """Whether the option is a variable of its own. Within one of JSON, and in a call, a text is a text already."""
    variable = _variable(("store", "options", option))
    return isinstance(value, str) and any(
        name.upper() == variable and text == value for name, text in os.environ.items()
    )


def _json_value(value: str) -> Any:
    """What a text says, which is all that an environment variable can carry, unless it is just a text."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def load_settings(**overrides: Any) -> Settings:
    """Read the environment; ``overrides`` win. Raises ``ConfigurationError`` naming each faulty variable."""
    _refuse_unknown(name.upper() for name in os.environ)
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        faults = "; ".join(f"{_variable(fault['loc'])}: {fault['msg']}" for fault in error.errors())
        raise ConfigurationError(f"the configuration cannot be used: {faults}") from error


def _refuse_unknown(variables: Iterator[str]) -> None:
    values, groups = set(_values()), {_variable((name,)) for name, _ in _groups()}
    unknown = sorted(
        name
        for name in variables
        if name.startswith(_PREFIX)
        and not name.startswith(_NOT_OURS)
        and name not in values | groups
        and not any(name.startswith(f"{value}{_LEVEL}") for value in values)
    )
    if unknown:
        raise ConfigurationError("; ".join(f"there is no setting {name}{_hint(name, values)}" for name in unknown))


def _hint(name: str, values: set[str]) -> str:
    shorter = {value.removeprefix(_PREFIX): value for value in sorted(values)}
    nearest = difflib.get_close_matches(name.removeprefix(_PREFIX), shorter, n=1, cutoff=0.5)
    return f"; did you mean {shorter[nearest[0]]}?" if nearest else ""


def _values() -> Iterator[str]:
    """The variable of each value; ``__`` may follow where it is a mapping."""
    groups = dict(_groups())
    for name in Settings.model_fields:
        if name in groups:
            yield from (_variable((name, inner)) for inner in groups[name].model_fields)
        else:
            yield _variable((name,))


def _groups() -> Iterator[tuple[str, type[_Group]]]:
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, _Group):
            yield name, field.annotation


def _variable(location: tuple[int | str, ...]) -> str:
    return _PREFIX + _LEVEL.join(str(part).upper() for part in location)
