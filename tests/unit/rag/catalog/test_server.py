"""How the embedded server's failures are told apart, and which settings it gets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rag.catalog import server
from rag.catalog.server import (
    Account,
    ensure_data_folder,
    programs,
    run_program,
    settings,
    startup_error,
    stop_leftover,
)
from rag.core.errors import ConfigurationError, DataFolderError, MissingExtraError, StorageFullError


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("FATAL: could not write: No space left on device", StorageFullError),
        ('initdb: error: could not access directory "/x": Permission denied', DataFolderError),
        ("FATAL: something else", ConfigurationError),
    ],
)
def test_the_programs_output_decides_the_error(output: str, kind: type[Exception]) -> None:
    error = startup_error("it failed", output)

    assert type(error) is kind
    assert str(error).startswith("it failed")


def test_only_the_last_lines_are_shown() -> None:
    assert "line 1 " not in str(startup_error("it failed", "\n".join(f"line {n} " for n in range(9))))


def test_a_small_shared_memory_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_shared_memory_bytes", lambda: 64 << 20)
    small = settings()
    monkeypatch.setattr(server, "_shared_memory_bytes", lambda: 8 << 30)

    assert "dynamic_shared_memory_type=mmap" in small
    assert "dynamic_shared_memory_type=mmap" not in settings()
    assert "listen_addresses=" in small


@pytest.mark.parametrize(
    ("gibibytes", "buffers", "maintenance"),
    [(0.25, "64MB", "64MB"), (2, "256MB", "256MB"), (64, "512MB", "512MB")],
)
def test_the_page_cache_takes_an_eighth_of_the_memory_within_bounds(
    monkeypatch: pytest.MonkeyPatch, gibibytes: float, buffers: str, maintenance: str
) -> None:
    monkeypatch.setattr(server, "memory_bytes", lambda: int(gibibytes * 2**30))

    arguments = settings()

    assert f"shared_buffers={buffers}" in arguments
    assert f"maintenance_work_mem={maintenance}" in arguments


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(MissingExtraError, match=r"anchorage\[local\]"):
        programs()


async def test_a_program_that_does_not_exist_is_a_status_not_an_exception() -> None:
    code, _ = await run_program(["/no/such/program"])

    assert code == 127


async def test_a_cluster_of_another_major_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("16\n")

    with pytest.raises(ConfigurationError, match="PostgreSQL 16"):
        await ensure_data_folder(tmp_path, tmp_path, Account())


@pytest.mark.parametrize("content", ["", "not a number\n", f"{os.getpid()}\n", "99999999\n"])
async def test_stale_files_go_and_strangers_are_left_alone(tmp_path: Path, content: Any) -> None:
    (tmp_path / "postmaster.pid").write_text(content)
    (tmp_path / ".s.PGSQL.5432.lock").write_text(content)

    await stop_leftover(tmp_path, tmp_path)

    assert not (tmp_path / "postmaster.pid").exists()
    assert not (tmp_path / ".s.PGSQL.5432.lock").exists()
