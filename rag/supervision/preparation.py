"""Models prepared in a child process, so that the supervisor stays small."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from rag.core.errors import UpstreamError
from rag.ownership.processes import die_with_parent
from rag.supervision.process import extended_environment
from rag.supervision.refusal import EXIT_CODE, PREFIX, read_refusal


async def prepare_in_child(
    names: Sequence[str], *, environment: Mapping[str, str], report: Callable[[str], None]
) -> Mapping[str, str]:
    """Prepare models, none of them for no names; return what the loaders take for each. Lines go to ``report``.

    Raises ``ConfigurationError`` when a model cannot be had here, ``UpstreamError`` for other failures. A
    cancelled call ends the child.
    """
    if not names:
        return {}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rag.cli", "models", "prepare", *names, "--json"),
        env=extended_environment(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        preexec_fn=die_with_parent(),
    )
    try:
        output, last = await asyncio.gather(_all_of(process.stdout), _relay(process.stderr, report))
        code = await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if code == EXIT_CODE:
        raise read_refusal(last)
    if code:
        raise UpstreamError(last or "preparing models failed")
    return {model["name"]: model["folder"] for model in json.loads(output)["models"]}


async def _all_of(stream: asyncio.StreamReader | None) -> bytes:
    return await stream.read() if stream else b""


async def _relay(stream: asyncio.StreamReader | None, report: Callable[[str], None]) -> str:
    """Pass lines on; return the error line, which is the last one and is not passed on."""
    error = ""
    while stream and (line := await stream.readline()):
        text = line.decode("utf-8", "replace").strip()
        if text.startswith(PREFIX):
            error = text.removeprefix(PREFIX)
        elif text:
            report(text)
    return error
