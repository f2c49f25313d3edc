"""What a version of Milvus can do, as far as the store depends on it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag.core.errors import StoreError
from rag.core.records import Capabilities, Feature, Quantization

OLDEST = (2, 3, 2)
"""The first server that deletes by any condition."""
MAX_DIMENSION = 32_768

_UNKNOWN = "the server has not answered yet, so its version is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A server of ``version``, or Milvus Lite."""

    version: tuple[int, int, int]
    lite: bool = False

    @property
    def sparse(self) -> bool:
        """Sparse vectors, on which lexical search rests."""
        return self._is((2, 4, 0), lite=True)

    @property
    def half(self) -> bool:
        """Vectors of float16."""
        return self._is((2, 4, 0), lite=False)

    @property
    def scaled(self) -> bool:
        """An HNSW index over vectors scaled to 8 bits."""
        return self._is((2, 5, 0), lite=True)

    @property
    def templates(self) -> bool:
        """Conditions whose values travel beside them; without, values are written as literals."""
        return self._is((2, 5, 0), lite=False)

    @property
    def partition_keys(self) -> bool:
        """Tenants hashed to partitions.

        A server of 2.3 has them too, but its upsert puts rows into other partitions than its reads look into.
        """
        return self._is((2, 4, 0), lite=False)

    @property
    def ordered_pages(self) -> bool:
        """Pages by primary key have to be asked for as such; a server of 2.3 gives each page in that order."""
        return self._is((2, 4, 0), lite=True)

    @property
    def squared_distances(self) -> bool:
        """Euclidean distances come squared."""
        return not self.lite

    def _is(self, oldest: tuple[int, int, int], *, lite: bool) -> bool:
        return lite if self.lite else self.version >= oldest


def engine_of(version: str) -> Engine:
    """The engine that calls itself ``version``; raises ``StoreError`` for one that is too old or not understood."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if found is None:
        raise StoreError(f"Milvus says that its version is {version!r}")
    numbers = (int(found[1]), int(found[2]), int(found[3] or 0))
    engine = Engine(version=numbers, lite=version.startswith("milvus_lite"))
    if not engine.lite and numbers < OLDEST:
        raise StoreError(f"Milvus {version} is too old: 2.3.2 is the first that works")
    return engine


def capabilities_of(engine: Engine | None) -> Capabilities:
    """What the store offers on ``engine``; on ``None``, not known yet, what any offers."""
    reasons = _reasons(engine)
    return Capabilities(
        features=frozenset(Feature) - reasons.keys(),
        quantizations=frozenset(Quantization) - reasons.keys(),
        max_dimension=MAX_DIMENSION,
        reasons=reasons,
    )


def _reasons(engine: Engine | None) -> dict[Feature | Quantization, str]:
    if engine is None:
        return dict.fromkeys((Feature.LEXICAL, Quantization.HALF, Quantization.INT8), _UNKNOWN)
    named = "Milvus Lite" if engine.lite else f"Milvus {'.'.join(map(str, engine.version))}"
    missing: dict[Feature | Quantization, str] = {}
    if not engine.sparse:
        missing[Feature.LEXICAL] = f"{named} has no sparse vectors; they came with 2.4"
    if not engine.half:
        missing[Quantization.HALF] = f"{named} keeps float32 only" + ("" if engine.lite else "; float16 came with 2.4")
    if not engine.scaled:
        missing[Quantization.INT8] = f"{named} has no HNSW index over scaled vectors; it came with 2.5"
    return missing
