"""Which store the settings name, and which one the data on this machine is indexed in."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from rag.catalog.inspection import StoreNote, peek_store
from rag.core.errors import CatalogError, ConfigurationError
from rag.maintenance import require_store_of
from rag.settings import Settings

_ADDRESSES = ("url", "uri", "location", "socket")
_PARTS = ("schema", "database", "db_name", "prefix")


def store_of(settings: Settings) -> StoreNote:
    """The kind of the configured store, and where it is; without secrets."""
    return StoreNote(kind=settings.store.kind, location=_location(settings))


def _location(settings: Settings) -> str:
    options = settings.store.options
    if settings.store.embedded:
        return str(options.get("path", "the data folder"))
    addresses = [_address(str(options[name])) for name in _ADDRESSES if name in options]
    own = [str(options[name]) for name in _PARTS if name in options]
    return " ".join([*addresses, *own]) or "the catalog's Postgres"


def _address(text: str) -> str:
    """Host, port and path of an address; of a connection string nothing that could be secret."""
    try:
        parts = urlsplit(text)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address"
    if not parts.netloc:
        return text if "=" not in text else "a connection string"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def write_note(settings: Settings, note: StoreNote) -> None:
    """Keep in the data folder which store was opened last, for checks while no catalog runs."""
    if _read_note(settings) == note:
        return
    with suppress(OSError):
        temporary = _path(settings).with_suffix(".new")
        temporary.write_text(json.dumps({"kind": note.kind, "location": note.location}), encoding="utf-8")
        temporary.replace(_path(settings))


def check_noted_store(settings: Settings) -> None:
    """Look, without starting anything, whether the data is indexed in the configured store.

    Asks the catalog where it answers; else what the last service wrote down counts, once there were documents.
    Raises ``StoreChangedError``.
    """
    try:
        noted = asyncio.run(_peek(settings))
    except (CatalogError, ConfigurationError):
        noted = _read_note(settings) if _holds_documents(settings) else None
    require_store_of(noted, store_of(settings))


async def _peek(settings: Settings) -> StoreNote | None:
    url = settings.catalog.url.get_secret_value() if settings.catalog.url else _embedded_url(settings)
    if url is None:
        raise CatalogError("no catalog runs on the data folder")
    return await peek_store(url)


def _embedded_url(settings: Settings) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((settings.data_dir / "run" / "postgres.json").read_text(encoding="utf-8"))["url"])
    return None


def _read_note(settings: Settings) -> StoreNote | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(_path(settings).read_text(encoding="utf-8"))
        return StoreNote(kind=str(noted["kind"]), location=str(noted["location"]))
    return None


def _path(settings: Settings) -> Path:
    return settings.data_dir / "store.json"


def _holds_documents(settings: Settings) -> bool:
    return any((settings.data_dir / "blobs").glob("*/*/*"))
