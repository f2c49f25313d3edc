"""A worker or an API that kills itself: ``python -m benchmarks.crash.victim worker catalog.claim:after``."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.crash.points import arm
from ingest.wiring import run_worker
from rag.settings import load_settings
from rag.wiring import run_service


def main(process: str, point: str) -> None:
    """Run the process as its command does, with one armed crash point."""
    arm(process, point)
    settings = load_settings()
    if process == "worker":
        asyncio.run(run_worker(settings))
    else:
        run_service(settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
