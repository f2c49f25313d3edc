"""Takes the network from a process: the first of three ways that the system allows."""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
import sys

_NEW_NETWORK = 0x40000000
_NO_NEW_PRIVILEGES = 38
_SET_SECCOMP = 22
_FILTER = 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_CALL, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_IO_URING_SETUP = 425
_FOREIGN_CALLS = 0x40000000
_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""Audit number of the architecture, and number of its ``socket`` call."""


def leave_network() -> str:
    """How the network was left: ``namespace``, ``seccomp``, or ``hook`` of the interpreter, the weakest.

    Must come before other threads start. Local sockets stay allowed by the last two.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NEW_NETWORK) == 0:
            return "namespace"
        if _refuse_sockets(libc):
            return "seccomp"
    sys.addaudithook(_refuse)
    return "hook"


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _refuse_sockets(libc: ctypes.CDLL) -> bool:
    """Have the kernel refuse every socket but local ones, to this process and all it starts."""
    known = _MACHINES.get(platform.machine())
    if known is None or libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    code = _instructions(*known)
    program = _Program(len(code) // 8, code)
    return bool(libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0)


def _instructions(architecture: int, socket_call: int) -> bytes:
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 7, architecture),
        (_LOAD, 0, 0, _CALL),
        (_AT_LEAST, 5, 0, _FOREIGN_CALLS),
        (_EQUAL, 4, 0, _IO_URING_SETUP),
        (_EQUAL, 0, 2, socket_call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 0, 1, socket.AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.__new__" and arguments[1] != socket.AF_UNIX:
        raise PermissionError(errno.EACCES, "a parser has no network")
    if event == "socket.getaddrinfo":
        raise PermissionError(errno.EACCES, "a parser has no network")
