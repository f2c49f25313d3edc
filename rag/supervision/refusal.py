"""The error line of one of our own commands, read back as the error it was."""

from __future__ import annotations

import re

from rag.core.errors import ConfigurationError

EXIT_CODE = 2
"""What our commands end with for a configuration that cannot be used."""
PREFIX = "anchorage: "

_LINE = re.compile(r"^(?:anchorage: )?(?P<message>.*?)(?: \((?P<code>[a-z_]+)\))?$")


def read_refusal(line: str) -> ConfigurationError:
    """Return the configuration error that a child printed before it ended with :data:`EXIT_CODE`."""
    found = _LINE.match(line.strip())
    message, code = (found["message"], found["code"]) if found else (line, None)
    kinds = {kind.code: kind for kind in ConfigurationError.__subclasses__()}
    return kinds.get(code or "", ConfigurationError)(message)
