"""A vector store of a third party: exact, in memory, without lexical search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rag.core.errors import ConfigurationError
from rag.core.records import Capabilities, Feature, Hit, Quantization
from rag.core.types import Scope, Terms, Vector
from stores.memory import MemoryStore
from stores.validation import check_feature, check_name


@asynccontextmanager
async def open_store(options: Mapping[str, Any]) -> AsyncIterator[ParrotStore]:
    """An empty store; raises ``ConfigurationError`` for any option."""
    if options:
        raise ConfigurationError(f"the parrot store has no option {', '.join(sorted(options))}")
    yield ParrotStore()


class ParrotStore(MemoryStore):
    """A ``VectorStore`` that repeats what it was told, word by word, and understands none of it."""

    kind = "parrot"
    capabilities = Capabilities(
        features=frozenset({Feature.EXACT}),
        max_dimension=4096,
        reasons={
            Feature.LEXICAL: "a parrot knows sounds, not words",
            Feature.INDEX: "every search is exact",
            Quantization.HALF: "vectors are kept as they came",
            Quantization.INT8: "vectors are kept as they came",
        },
    )

    async def lexical_search(self, collection: str, scope: Scope, terms: Terms, **given: Any) -> list[Hit]:
        """Refused with the reason."""
        check_name(collection)
        check_feature(Feature.LEXICAL, self.capabilities)
        return await super().lexical_search(collection, scope, terms, **given)

    async def hybrid_search(
        self, collection: str, scope: Scope, vector: Vector, terms: Terms, **given: Any
    ) -> list[Hit]:
        """Refused with the reason."""
        check_name(collection)
        check_feature(Feature.LEXICAL, self.capabilities)
        return await super().hybrid_search(collection, scope, vector, terms, **given)
