"""Builds a shard's index in a process of its own, since the engine holds the interpreter's lock meanwhile.

``python -m stores.qdrant.building --spec JSON FOLDER`` indexes the shard in the folder, a copy that nobody serves.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from rag.core.errors import StoreError
from rag.core.records import CollectionSpec
from rag.ownership.processes import die_with_parent
from stores.qdrant import edge

NICENESS = 5
_REASON_BYTES = 500
_logger = logging.getLogger(__name__)


async def copy_folder(source: Path, target: Path) -> None:
    """Copy a flushed shard; holes stay holes, and blocks are shared where the file system can."""
    await _run("cp", "-a", "--reflink=auto", "--sparse=always", str(source), str(target))


async def build(folder: Path, spec: CollectionSpec) -> None:
    """Index the shard of ``folder`` in a child process. Raises ``StoreError``; cancelled, the child is killed."""
    stored = orjson.dumps(spec.to_json()).decode()
    await _run(sys.executable, "-m", "stores.qdrant.building", "--spec", stored, str(folder))


def main(arguments: Sequence[str] | None = None) -> None:
    """The child process."""
    parser = argparse.ArgumentParser(prog="stores.qdrant.building")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--spec", required=True, help="the collection's spec as JSON")
    options = parser.parse_args(arguments)
    os.nice(NICENESS)
    spec = CollectionSpec.from_json(orjson.loads(options.spec))
    shard = edge.Shard.load(str(options.folder), edge.config_of(spec, threshold=edge.ALWAYS))
    shard.optimize()
    shard.flush()
    shard.close()


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        # A folder that an orphan still writes to could not be removed by the next host.
        preexec_fn=die_with_parent(signal.SIGKILL),
    )
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        reason = said.decode(errors="replace").strip()[-_REASON_BYTES:]
        _logger.error("a step of building an index failed", extra={"action": "index_build_failed"})
        raise StoreError(f"{Path(command[0]).name} ended with {process.returncode}: {reason}")


if __name__ == "__main__":
    main()
