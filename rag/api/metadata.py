"""Metadata from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from rag.core.errors import InvalidRequestError
from rag.core.filters import read_metadata
from rag.core.types import FieldType, Metadata

MAX_METADATA_BYTES = 32 * 1024
"""Every chunk of a document carries its metadata, and so does every hit."""


def accept_metadata(metadata: Mapping[str, Any], fields: Mapping[str, FieldType]) -> Metadata:
    """Check metadata that a client sent. Raises ``FilterError``, or ``InvalidRequestError`` when it is too large."""
    size = len(orjson.dumps(metadata))
    if size > MAX_METADATA_BYTES:
        raise InvalidRequestError(f"metadata has {size} bytes as JSON; at most {MAX_METADATA_BYTES} are allowed")
    return read_metadata(metadata, fields)
