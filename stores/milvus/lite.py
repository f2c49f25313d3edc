"""Milvus Lite in a process of its own, which all processes that name its folder share."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import grpc
from pymilvus.grpc_gen import milvus_pb2, milvus_pb2_grpc

from rag.core.errors import MissingExtraError
from stores.hosting import attach_or_own

_PING_SECONDS = 4.0


@asynccontextmanager
async def shared_lite(folder: Path) -> AsyncIterator[str]:
    """The address of the process that keeps ``folder``.

    Raises ``MissingExtraError``, and what ``stores.hosting.attach_or_own`` does.
    """
    if find_spec("milvus_lite") is None:
        raise MissingExtraError("Milvus Lite needs the package milvus-lite")

    def command(socket: Path) -> list[str]:
        return [sys.executable, "-m", "stores.milvus.lite_host", str(folder / "lite"), str(socket)]

    async with attach_or_own(folder, name="milvus", command=command, ping=_ping) as hosted:
        yield f"unix:{hosted.socket}"


async def _ping(socket: Path) -> None:
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        stub = milvus_pb2_grpc.MilvusServiceStub(channel)
        await stub.GetVersion(milvus_pb2.GetVersionRequest(), timeout=_PING_SECONDS)
