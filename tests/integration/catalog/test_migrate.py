"""Migrations: once each, whoever starts first, with the rows of older releases kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from rag.catalog import open_catalog
from rag.catalog.migrate import migrate, migrations
from rag.core.errors import CatalogError, ConfigurationError
from rag.core.types import DocumentState, Scope

DOCUMENT = UUID("11111111-1111-1111-1111-111111111111")
OLD_ROWS = """
SET search_path TO anchorage;
INSERT INTO physical_collections (collection, name, embedding_model, spec, documents, chunks, total_terms)
VALUES ('22222222-2222-2222-2222-222222222222', 'c_old', 'e5',
    '{"dimension": 3, "metric": "cosine", "index": {"m": 16, "ef_construction": 100}, "filterable": {"年": "integer"}}',
    1, 2, 9);
INSERT INTO collections (id, tenant, name, live, epoch)
SELECT '22222222-2222-2222-2222-222222222222', 'acme', '论文', id, 5 FROM physical_collections;
INSERT INTO documents (id, tenant, collection, source, media_type, sha256, size, metadata, state, generation, attempt,
    title, chunks)
VALUES ('11111111-1111-1111-1111-111111111111', 'acme', '22222222-2222-2222-2222-222222222222', 'a.txt', 'text/plain',
    'aa', 2, '{"年": 2020}', 'published', nextval('generations'), 1, 'Old', 2);
INSERT INTO generation_terms (generation, document, chunks, total_terms, terms, counts)
VALUES (1, '11111111-1111-1111-1111-111111111111', 2, 9, '{4,5}', '{1,2}');
INSERT INTO term_counts (physical, term, chunks) SELECT id, 4, 1 FROM physical_collections;
INSERT INTO term_counts (physical, term, chunks) SELECT id, 5, 2 FROM physical_collections;
"""


@pytest.mark.parametrize("version", [1, 3])
async def test_a_database_of_an_earlier_release_is_upgraded_with_its_rows(empty_url: str, version: int) -> None:
    await migrate(empty_url, up_to=version)
    with psycopg.connect(empty_url) as connection:
        connection.execute(OLD_ROWS)
    scope = Scope(tenant="acme", groups=None)

    async with open_catalog(empty_url, pool_size=2, timeout=20.0) as catalog:
        view = await catalog.collection(scope, "论文", terms=[4, 5])
        document = await catalog.get_document(scope, "论文", DOCUMENT)
        assert (view.epoch, view.document_counts, view.statistics.chunks) == (5, {4: 1, 5: 2}, 2)
        assert (document.metadata, document.state) == ({"年": 2020}, DocumentState.PUBLISHED)
        assert (document.promotion, document.structure) == (None, {})
        assert set(await catalog.current(scope, [(DOCUMENT, 1)])) == {DOCUMENT}

        await catalog.delete_document(scope, "论文", DOCUMENT)

        assert (await catalog.collection(scope, "论文", terms=[4, 5])).document_counts == {}


async def test_starters_at_the_same_time_migrate_once(empty_url: str) -> None:
    await asyncio.gather(*(migrate(empty_url) for _ in range(6)))

    with psycopg.connect(empty_url) as connection:
        rows = connection.execute("SELECT version FROM anchorage.migrations ORDER BY version").fetchall()
    assert [version for (version,) in rows] == [step.version for step in migrations()]


async def test_a_failed_step_leaves_nothing_behind(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = migrations()
    broken = [*steps[:-1], type(steps[-1])(version=steps[-1].version, name="broken", sql="SELECT no_such_thing")]
    with monkeypatch.context() as patch:
        patch.setattr("rag.catalog.migrate.migrations", lambda: broken)
        with pytest.raises(CatalogError):
            await migrate(empty_url)

    await migrate(empty_url)


async def test_a_database_of_a_newer_release_is_refused(empty_url: str) -> None:
    await migrate(empty_url)
    with psycopg.connect(empty_url) as connection:
        connection.execute("INSERT INTO anchorage.migrations (version, name) VALUES (9999, 'future')")

    with pytest.raises(ConfigurationError, match="newer"):
        await migrate(empty_url)


async def test_a_database_user_without_rights_is_told_so(empty_url: str) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        try:
            with pytest.raises(ConfigurationError, match="anchorage"):
                await migrate(psycopg.conninfo.make_conninfo(empty_url, user="reader"))
        finally:
            connection.execute("DROP ROLE reader")


def test_the_steps_are_numbered_without_a_gap() -> None:
    assert [step.version for step in migrations()] == list(range(1, len(migrations()) + 1))


async def test_an_address_where_nothing_listens_is_a_catalog_error(tmp_path: Path) -> None:
    with pytest.raises(CatalogError):
        async with open_catalog(f"postgresql://x@/x?host={tmp_path}", pool_size=1, timeout=1.0):
            pass
