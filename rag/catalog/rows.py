"""From rows to the values that leave the catalog, and back."""

from __future__ import annotations

import base64
import binascii
import json
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from rag.core.catalog import BlobRef, CollectionView, DocumentView, IndexStatistics, PromotionView
from rag.core.errors import InvalidRequestError
from rag.core.filters import RESERVED_FIELDS, dump_metadata, read_metadata
from rag.core.records import CollectionSpec
from rag.core.types import DocumentState, Metadata, Quality, Scope

Row = Mapping[str, Any]

_LONGEST_NAME = 128

COLLECTION_COLUMNS = (
    "c.id, c.tenant, c.name, c.epoch, c.created_at, p.name AS physical, p.embedding_model, p.spec::text AS spec, "
    "p.documents, p.chunks, p.total_terms"
)
LIVE = "collections c JOIN physical_collections p ON p.id = c.live"
DOCUMENT_COLUMNS = (
    "d.id, c.name AS collection, p.spec::text AS spec, d.source, d.title, d.media_type, d.sha256, d.size, d.metadata, "
    "d.acl, d.state, d.stage, d.quality, d.generation, d.attempt, d.error_code, d.error_message, d.chunks, "
    "d.characters, d.encoding, d.attempts, d.created_at, d.updated_at, d.published_at, d.structure, d.promotions, "
    "d.promotion_at, d.claimed_at IS NOT NULL AS is_claimed"
)
VISIBLE = "(%(groups)s::text[] IS NULL OR d.acl = '{}' OR d.acl && %(groups)s::text[])"


def groups(scope: Scope) -> list[str] | None:
    """The argument of ``VISIBLE``."""
    return None if scope.groups is None else sorted(scope.groups)


def collection_name(name: str) -> str:
    """The name in NFC. Raises :class:`InvalidRequestError`."""
    normal = unicodedata.normalize("NFC", name)
    if not 1 <= len(normal) <= _LONGEST_NAME:
        raise InvalidRequestError(f"a collection's name has 1 to {_LONGEST_NAME} characters")
    if "/" in normal or any(unicodedata.category(each) in ("Cc", "Cs") for each in normal):
        raise InvalidRequestError("a collection's name holds neither '/' nor control characters")
    return normal


def dump_spec(spec: CollectionSpec) -> dict[str, Any]:
    """A spec as JSON. Raises :class:`InvalidRequestError` for a field name that is reserved."""
    reserved = sorted(RESERVED_FIELDS & set(spec.filterable))
    if reserved:
        raise InvalidRequestError(f"{', '.join(reserved)} cannot be the name of a filterable field")
    return spec.to_json()


@lru_cache(maxsize=1024)
def read_spec(text: str) -> CollectionSpec:
    """The inverse of :func:`dump_spec`, from JSON text."""
    return CollectionSpec.from_json(json.loads(text))


def collection_view(row: Row, document_counts: Mapping[int, int] | None = None) -> CollectionView:
    """A row of ``COLLECTION_COLUMNS``."""
    return CollectionView(
        id=row["id"],
        name=row["name"],
        tenant=row["tenant"],
        physical=row["physical"],
        embedding_model=row["embedding_model"],
        spec=read_spec(row["spec"]),
        epoch=row["epoch"],
        statistics=IndexStatistics(chunks=row["chunks"], total_terms=row["total_terms"]),
        document_counts=document_counts or {},
        created_at=row["created_at"],
        documents=row["documents"],
    )


def document_view(row: Row) -> DocumentView:
    """A row of ``DOCUMENT_COLUMNS``."""
    same = (
        "id", "collection", "source", "title", "media_type", "stage", "generation", "attempt", "error_code",
        "error_message", "chunks", "characters", "encoding", "created_at", "updated_at", "published_at",
    )  # fmt: skip
    return DocumentView(
        **{name: row[name] for name in same},
        blob=BlobRef(sha256=row["sha256"], size=row["size"]),
        metadata=read_metadata(row["metadata"], read_spec(row["spec"]).filterable),
        acl=tuple(row["acl"]),
        state=DocumentState(row["state"]),
        quality=Quality(row["quality"]) if row["quality"] else None,
        attempts=tuple(row["attempts"]),
        structure=row["structure"],
        promotion=_promotion(row),
    )


def _promotion(row: Row) -> PromotionView | None:
    degraded = row["quality"] is not None and Quality(row["quality"]).degraded
    if row["state"] != DocumentState.PUBLISHED or not degraded:
        return None
    return PromotionView(attempts=row["promotions"], running=row["is_claimed"], next_at=row["promotion_at"])


def metadata_json(metadata: Metadata, spec: CollectionSpec) -> dict[str, Any]:
    """Checked metadata as it is stored. Raises ``FilterError``."""
    return dump_metadata(read_metadata(metadata, spec.filterable))


def storable(value: Any) -> Any:
    """A JSON value without what a database cannot keep in texts: NUL and halves of surrogate pairs."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {storable(name): storable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable(part) for part in value]
    return value


def dump_cursor(created_at: datetime, document: UUID) -> str:
    """Where a listing goes on."""
    return base64.urlsafe_b64encode(f"{created_at.isoformat()}|{document}".encode()).decode()


def read_cursor(cursor: str) -> tuple[datetime, UUID]:
    """The inverse of :func:`dump_cursor`. Raises :class:`InvalidRequestError`."""
    try:
        moment, _, document = base64.urlsafe_b64decode(cursor.encode()).decode().partition("|")
        return datetime.fromisoformat(moment), UUID(document)
    except (ValueError, binascii.Error):
        raise InvalidRequestError("the cursor is not one that a listing gave") from None
