"""What is known about a model before any of its weights are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

Report: TypeAlias = Callable[[str], None]


class ModelKind(StrEnum):
    """What a model is for."""

    EMBEDDER = "embedder"
    RERANKER = "reranker"
    GENERATOR = "generator"


class Precision(StrEnum):
    """The number format in which a model computes."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    INT8 = "int8"

    @property
    def stored(self) -> Precision:
        """Return the format of the weights on disk; int8 is made from float32 when the model is loaded."""
        return Precision.FLOAT32 if self is Precision.INT8 else self


class Recipe(Protocol):
    """Writes a model into an empty folder."""

    def __call__(self, folder: Path, *, sources: Mapping[str, Path], precision: Precision, report: Report) -> None:
        """Write the model to ``folder`` with weights stored as ``precision.stored``.

        ``sources`` maps the roles that the model's spec names to files. Raises ConfigurationError when a
        source is damaged.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file that an installed package carries, by its path inside the package."""

    role: str
    package: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model that can be prepared.

    ``recipe`` is ``module:function`` of a Recipe, loaded only when the model is written. ``languages`` are
    ISO 639-1 codes, ``*`` for any. ``dimension`` is the vector's size, None for models that give no vector.
    ``distribution`` is where the weights come from and ``install`` the command that gets it.
    """

    name: str
    kind: ModelKind
    languages: tuple[str, ...]
    dimension: int | None
    parameters: int
    distribution: str
    install: str
    sources: tuple[Source, ...]
    recipe: str

    def expected_bytes(self, precision: Precision) -> int:
        """Return about how many bytes the prepared folder takes."""
        tokenizer = 20_000_000
        return self.parameters * (4 if precision.stored is Precision.FLOAT32 else 2) + tokenizer
