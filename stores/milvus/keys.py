"""The primary key: a record's id and a digest of its tenant, so that equal ids of two tenants are two rows."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from uuid import UUID

KEY_LENGTH = 64
_ID_LENGTH = 32


def primary_key(tenant: str, id: UUID) -> str:
    """64 hexadecimal digits; in their order those of one tenant are ordered by id."""
    return id.hex + _digest(tenant)


def id_of(key: str) -> UUID:
    """The id within a primary key."""
    return UUID(hex=key[:_ID_LENGTH])


@lru_cache(maxsize=1024)
def _digest(tenant: str) -> str:
    return blake2b(tenant.encode(), digest_size=16).hexdigest()
