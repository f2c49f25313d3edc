"""The crash benchmark kills where it says, and knows a whole text from half of one."""

from __future__ import annotations

import importlib
import inspect
import signal
import subprocess
import sys

import pytest

from benchmarks.crash.documents import BROKEN, LARGE, are_of_one_version, content_of, is_whole, marks_in, parts_of
from benchmarks.crash.points import STEPS, points

POINTS = [(process, point) for process in STEPS for point in points(process)]
VICTIM = """
import asyncio
from benchmarks.crash.points import WORKER_STEPS, arm
from rag.blobs import FileBlobs

WORKER_STEPS["twice"] = "rag.blobs:FileBlobs.condition#2"

async def condition(self):
    print("done", flush=True)

FileBlobs.condition = condition
arm("worker", "twice:{moment}")

async def main():
    for _ in range(3):
        await FileBlobs.condition(None)

asyncio.run(main())
"""


@pytest.mark.parametrize("place", sorted({place for steps in STEPS.values() for place in steps.values()}))
def test_every_step_is_a_coroutine_function_of_the_service(place: str) -> None:
    module, _, path = place.partition("#")[0].partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)

    assert inspect.iscoroutinefunction(found)


def test_points_are_named_once() -> None:
    assert len(set(POINTS)) == len(POINTS)


@pytest.mark.parametrize(("moment", "done"), [("before", 1), ("after", 2)])
def test_a_process_kills_itself_at_its_point(moment: str, done: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", VICTIM.replace("{moment}", moment)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert ended.stdout == "done\n" * done


def test_a_text_is_whole_with_every_part_once_and_in_order() -> None:
    text = content_of("first.md", 3).decode()
    paragraphs = text.split("\n\n")

    assert is_whole(text, "first.md", 3)
    assert not is_whole(text, "first.md", 4)
    assert not is_whole(text, "second.txt", 3)
    assert not is_whole("\n\n".join(paragraphs[:-1]), "first.md", 3)
    assert not is_whole("\n\n".join([*paragraphs, paragraphs[0]]), "first.md", 3)
    assert not is_whole("\n\n".join(reversed(paragraphs)), "first.md", 3)


def test_pieces_of_two_versions_or_of_another_document_are_told() -> None:
    old, new = content_of("first.md", 3).decode(), content_of("first.md", 4).decode()

    assert are_of_one_version([old[:80], old[80:]], "first.md")
    assert not are_of_one_version([old[:80], new[:80]], "first.md")
    assert not are_of_one_version([old[:80]], "second.txt")


def test_the_large_document_has_more_chunks_than_one_batch_writes_and_the_broken_one_no_text() -> None:
    assert len(marks_in(content_of(LARGE, 1).decode())) == parts_of(LARGE) > 256
    assert marks_in(content_of(BROKEN, 1).decode()) == []
