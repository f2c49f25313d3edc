"""Where installed packages keep their files, found without importing them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from pathlib import Path

from rag.core.errors import ConfigurationError, MissingExtraError
from rag.models.spec import ModelSpec, Source

_FORMAT_LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers", "safetensors")


def locate(spec: ModelSpec) -> Mapping[str, Path]:
    """Return the source files of ``spec`` by role.

    Raises MissingExtraError naming the command to run when a package is not installed, and
    ConfigurationError when the installed one lacks the file.
    """
    return {source.role: _locate(source, spec) for source in spec.sources}


def _locate(source: Source, spec: ModelSpec) -> Path:
    found = importlib.util.find_spec(source.package)
    folders = list(found.submodule_search_locations or ()) if found else []
    if not folders:
        raise MissingExtraError(
            f"{spec.name} needs the package {source.package}, which is not installed: {spec.install}"
        )
    for folder in folders:
        path = Path(folder) / source.file
        if path.is_file():
            return path
    raise ConfigurationError(f"{spec.name} needs {source.file}, which the installed {source.package} does not carry")


def library_versions() -> Mapping[str, str]:
    """Return the versions of the libraries whose formats a prepared folder follows."""
    return {name: _version(name) for name in _FORMAT_LIBRARIES}


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
