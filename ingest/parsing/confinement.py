"""What a parser process gives up before it reads its first document."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

_CORE_BYTES = 0
_FILE_BYTES = 128 * 2**20
_OPEN_FILES = 64
_SET_PARENT_DEATH_SIGNAL = 1
_ADOPT_ORPHANS = 36


def confine(*, memory_bytes: int, parent: int) -> None:
    """Limit memory, files and core dumps, die with ``parent``, and adopt the orphans among its descendants.

    Memory is limited by ``RLIMIT_DATA``: ``RLIMIT_AS`` would count reservations that are never used.
    """
    for limit, value in (
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, _CORE_BYTES),
    ):
        _lower(limit, value)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        libc.prctl(_ADOPT_ORPHANS, 1)
    if os.getppid() != parent:
        os._exit(1)


def limit_processor_seconds(seconds: float) -> None:
    """Have the kernel end this process once it used so much more; the backstop of its owner's clock."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 2, hard))


def peak_bytes() -> int:
    """The largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (bound, bound))
