"""Brings a database to this release's schema: numbered SQL files, each applied once, in one transaction."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import resources

import psycopg
from procrastinate.schema import SchemaManager
from psycopg import AsyncConnection

from rag.catalog.database import SCHEMA
from rag.catalog.errors import catalog_errors
from rag.core.errors import ConfigurationError

_logger = logging.getLogger(__name__)

_LOCK = 0x616E6368  # "anch"
_LOCK_SECONDS = 120
_STATEMENT_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """The steps that this release knows, in order."""
    files = sorted(
        (
            file
            for file in resources.files("rag.catalog").joinpath("migrations").iterdir()
            if file.name.endswith(".sql")
        ),
        key=lambda file: file.name,
    )
    return [
        Migration(version=int(file.name[:4]), name=file.name.removesuffix(".sql"), sql=file.read_text(encoding="utf-8"))
        for file in files
    ]


async def migrate(url: str, *, up_to: int | None = None) -> None:
    """Apply what is missing; starters that come at the same time wait for the first one.

    Raises :class:`ConfigurationError` for a database of a newer release, or one without the rights to change it.
    """
    with catalog_errors():
        connection = await AsyncConnection.connect(url, autocommit=True, connect_timeout=30)
        async with connection, connection.transaction():
            await _apply(connection, [step for step in migrations() if up_to is None or step.version <= up_to])


async def _apply(connection: AsyncConnection, steps: list[Migration]) -> None:
    await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
    await connection.execute(f"SET LOCAL statement_timeout = '{_STATEMENT_SECONDS}s'")
    # Held to the end of the transaction, so that a killed starter lets go of it.
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    try:
        done = await _applied(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(f"the catalog's database user cannot create the schema {SCHEMA!r}") from error
    newer = done - {step.version for step in migrations()}
    if newer:
        raise ConfigurationError(f"the catalog was made by a newer release (schema version {max(newer)})")
    for step in steps:
        if step.version not in done:
            await _step(connection, step)


async def _applied(connection: AsyncConnection) -> set[int]:
    exists = await (await connection.execute("SELECT to_regnamespace(%s)::text", (SCHEMA,))).fetchone()
    if exists is None or exists[0] is None:
        await connection.execute(f"CREATE SCHEMA {SCHEMA}")
    await connection.execute(f"SET LOCAL search_path TO {SCHEMA}, public")
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations "
        "(version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    cursor = await connection.execute("SELECT version FROM migrations")
    return {int(version) for (version,) in await cursor.fetchall()}


async def _step(connection: AsyncConnection, step: Migration) -> None:
    if step.version == 1:
        await connection.execute(SchemaManager.get_schema())
    await connection.execute(step.sql)
    await connection.execute("INSERT INTO migrations (version, name) VALUES (%s, %s)", (step.version, step.name))
    _logger.info("the catalog's schema moved", extra={"action": "migrated", "version": step.version})
