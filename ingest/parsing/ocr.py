"""Whether this machine reads scans: where tesseract is, and in which languages it reads."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ingest.parsing.ways import Table
from rag.core.errors import ConfigurationError
from rag.core.media import PDF

_logger = logging.getLogger(__name__)

PROGRAM = "tesseract"
"""Also the name under which its attempts are kept."""
SCANNED = frozenset({PDF})
"""The media types whose documents may be pictures of text."""
NOT_INSTALLED = "ocr_not_installed"
ADVICE = "OCR is not installed: scanned pages are read where tesseract and its languages are on the PATH"

_PARSER = "ingest.parsing.parsers.ocr:OcrParser"
_WIDESPREAD = ("chi_sim", "eng", "chi_tra", "jpn", "kor", "spa", "fra", "deu", "rus", "por", "ara", "ita")
_MOST = 3
"""Each language takes about as long as the first one."""
_NO_LANGUAGES = frozenset({"osd", "equ", "snum"})
_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tesseract:
    """The installed program and the languages to read in, the first of which decides on spaces."""

    program: str
    languages: Sequence[str]

    def ways(self) -> Table:
        """The table of parsers by OCR."""
        arguments = json.dumps({"program": self.program, "languages": "+".join(self.languages)})
        return dict.fromkeys(SCANNED, f"{_PARSER} {arguments}")


async def find_tesseract(languages: str) -> Tesseract | None:
    """The program on the ``PATH``, reading ``languages`` such as ``chi_sim+eng``; without, the common ones it has.

    Raises ``ConfigurationError`` for languages that are not installed. Without a program that works there is none.
    """
    program = await asyncio.to_thread(shutil.which, PROGRAM)
    installed = await asyncio.to_thread(_installed, program) if program else ()
    if not program or not installed:
        _logger.info(ADVICE, extra={"action": NOT_INSTALLED})
        return None
    missing = set(filter(None, languages.split("+"))) - set(installed)
    if missing:
        raise ConfigurationError(
            f"ANCHORAGE_INGEST__OCR_LANGUAGES: tesseract has no {', '.join(sorted(missing))}; "
            f"installed are {', '.join(installed)}"
        )
    found = Tesseract(program=program, languages=languages.split("+") if languages else _chosen(installed))
    _logger.info("scans are read by OCR: %s", "+".join(found.languages), extra={"action": "ocr_found"})
    return found


def _chosen(installed: Collection[str]) -> list[str]:
    """A few of the installed languages, the most spoken first."""
    return [*(each for each in _WIDESPREAD if each in installed), *sorted(set(installed) - set(_WIDESPREAD))][:_MOST]


def _installed(program: str) -> list[str]:
    """The languages it lists; none if it does not work."""
    try:
        listed = subprocess.run([program, "--list-langs"], capture_output=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        _logger.warning("tesseract does not work", extra={"action": "ocr_broken"}, exc_info=True)
        return []
    _, *names = listed.stdout.decode("utf-8", "replace").split("\n")
    return [name for name in filter(None, map(str.strip, names)) if name not in _NO_LANGUAGES and "/" not in name]
