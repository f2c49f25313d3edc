"""Prepared model folders: made once, found again in milliseconds.

A folder is named ``<model>-<format>-<key>``; the key covers the source files, the versions of the libraries
whose formats it follows, the processor's features and the recipe's revision.
"""

from __future__ import annotations

import hashlib
import json
import pkgutil
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rag.core.errors import ConfigurationError, DataFolderError, MissingExtraError, StorageFullError
from rag.models.catalogue import MODELS, known
from rag.models.fingerprint import file_hashes
from rag.models.folder import exclusive, make_parent, new_folder, read_json, tree_size, write_json
from rag.models.hub import ENTRIES, cached_folder, is_hub_name
from rag.models.packages import library_versions, locate
from rag.models.precision import choose_precision, cpu_features
from rag.models.spec import ModelKind, ModelSpec, Precision, Recipe, Report

MANIFEST = "anchorage.json"
REVISION = 1

_HASHES = ".hashes.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """One row of ``models list``; ``bytes`` is the folder's size, or about what it will take."""

    name: str
    kind: ModelKind
    languages: tuple[str, ...]
    dimension: int | None
    distribution: str
    installed: bool
    folder: Path | None
    bytes: int

    @property
    def prepared(self) -> bool:
        """Tell whether a complete folder exists."""
        return self.folder is not None


def ignore(message: str) -> None:
    """Take a progress message and do nothing with it."""


def prepare(
    name: str,
    *,
    models_dir: Path,
    precision: Precision | None = None,
    report: Report = ignore,
    deadline: float = 600.0,
    models: Mapping[str, ModelSpec] = MODELS,
) -> Path:
    """Return the folder of the known model ``name``, making it first where there is none.

    ``precision`` is the format to store for; None chooses by the processor. Blocks for seconds when it makes
    the folder (call it in a thread). Two processes may call at once: one makes the folder, the other waits at
    most ``deadline`` seconds.

    Raises ConfigurationError for an unknown name or a damaged source, MissingExtraError when a package is not
    installed, DataFolderError when ``models_dir`` cannot be written, StorageFullError when the disk is full,
    CapacityError when the other process is not done in time. After an error no folder is left.
    """
    spec = known(name, models=models)
    precision = precision or choose_precision(spec.kind, features=cpu_features())
    sources = locate(spec)
    make_parent(models_dir)
    provenance = _provenance(spec, sources, precision=precision, models_dir=models_dir)
    target = models_dir / f"{spec.name}-{precision.stored}-{_key(provenance)}"
    if is_complete(target):
        return target
    with exclusive(models_dir / f".{spec.name}.lock", deadline=deadline):
        if not is_complete(target):
            _make(spec, target, sources=sources, precision=precision, provenance=provenance, report=report)
    return target


def resolve(
    name_or_folder: str,
    *,
    models_dir: Path,
    precision: Precision | None = None,
    kind: ModelKind | None = None,
    report: Report = ignore,
    models: Mapping[str, ModelSpec] = MODELS,
) -> str:
    """Return the folder of a model setting, as an absolute path; a known name is prepared.

    Raises as ``prepare`` and ``find_folder``.
    """
    folder = find_folder(name_or_folder, kind=kind, models=models)
    if folder is not None:
        return str(folder)
    return str(prepare(name_or_folder, models_dir=models_dir, precision=precision, report=report, models=models))


def find_folder(
    name_or_folder: str, *, kind: ModelKind | None = None, models: Mapping[str, ModelSpec] = MODELS
) -> Path | None:
    """Return the folder of a model setting that needs no preparation, ``None`` for a known name.

    That is a folder, or a name such as ``organisation/model`` in the local hub cache. Raises ConfigurationError
    for a name that is neither, a folder that holds no model, and a known name that is not of ``kind``.
    """
    if name_or_folder in models:
        made_as = models[name_or_folder].kind
        if kind not in (None, made_as):
            raise ConfigurationError(f"{name_or_folder} cannot be the {kind}: it is made as {made_as}")
        return None
    folder = Path(name_or_folder).expanduser().absolute()
    if folder.is_dir():
        if not any((folder / entry).is_file() for entry in ENTRIES):
            raise ConfigurationError(f"the folder {folder} holds no model: it has no {' and no '.join(ENTRIES)}")
        return folder
    if name_or_folder.startswith(("/", ".", "~")):
        raise ConfigurationError(f"there is no model folder {name_or_folder}")
    if not is_hub_name(name_or_folder):
        known(name_or_folder, models=models)
    cached = cached_folder(name_or_folder)
    if cached is None:
        raise ConfigurationError(
            f"the model {name_or_folder} is not in the local hub cache, and nothing is fetched here; "
            f"known models: {', '.join(models)}"
        )
    return cached


def list_models(*, models_dir: Path, models: Mapping[str, ModelSpec] = MODELS) -> list[ModelStatus]:
    """Return the status of every known model; reads folder names and manifests only."""
    return [_status(spec, models_dir) for spec in models.values()]


def is_complete(folder: Path) -> bool:
    """Tell whether ``folder`` is a prepared folder whose files are all there in full size."""
    files = read_json(folder / MANIFEST).get("files")
    if not isinstance(files, dict) or not files:
        return False
    return all(_has_size(folder / name, size) for name, size in files.items())


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _provenance(
    spec: ModelSpec, sources: Mapping[str, Path], *, precision: Precision, models_dir: Path
) -> Mapping[str, object]:
    try:
        hashes = file_hashes(sources.values(), memory=models_dir / _HASHES)
    except PermissionError as error:
        raise DataFolderError(f"cannot write {error.filename}: {error.strerror}") from error
    return {
        "model": spec.name,
        "revision": REVISION,
        "precision": precision.stored,
        "sources": {role: hashes[str(path)] for role, path in sources.items()},
        "libraries": library_versions(),
        "cpu": sorted(cpu_features()),
    }


def _key(provenance: Mapping[str, object]) -> str:
    canonical = json.dumps(provenance, sort_keys=True).encode()
    return hashlib.sha256(canonical).hexdigest()[:16]


def _make(
    spec: ModelSpec,
    target: Path,
    *,
    sources: Mapping[str, Path],
    precision: Precision,
    provenance: Mapping[str, object],
    report: Report,
) -> None:
    _require_space(spec, target.parent, precision=precision)
    recipe = _load_recipe(spec)
    report(f"preparing {spec.name} ({precision.stored})")
    if target.exists():
        shutil.rmtree(target)
    with new_folder(target) as folder:
        recipe(folder, sources=sources, precision=precision, report=report)
        files = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        write_json(folder / MANIFEST, {**provenance, "files": files})
    for outdated in _folders(spec, target.parent, precision=precision):
        if outdated != target:
            shutil.rmtree(outdated, ignore_errors=True)
    report(f"prepared {spec.name}: {tree_size(target) / 1e6:.0f} MB")


def _load_recipe(spec: ModelSpec) -> Recipe:
    try:
        return cast("Recipe", pkgutil.resolve_name(spec.recipe))
    except ImportError as error:
        raise MissingExtraError(f"{spec.name} cannot be prepared ({error}): pip install 'anchorage[local]'") from error


def _require_space(spec: ModelSpec, models_dir: Path, *, precision: Precision) -> None:
    needed, free = spec.expected_bytes(precision), shutil.disk_usage(models_dir).free
    if free < needed:
        raise StorageFullError(
            f"{spec.name} needs about {needed / 1e6:.0f} MB in {models_dir}, where {free / 1e6:.0f} MB are free"
        )


def _status(spec: ModelSpec, models_dir: Path) -> ModelStatus:
    folder = next(filter(is_complete, _folders(spec, models_dir)), None)
    expected = spec.expected_bytes(choose_precision(spec.kind, features=cpu_features()))
    return ModelStatus(
        name=spec.name,
        kind=spec.kind,
        languages=spec.languages,
        dimension=spec.dimension,
        distribution=spec.distribution,
        installed=_installed(spec),
        folder=folder,
        bytes=tree_size(folder) if folder else expected,
    )


def _folders(spec: ModelSpec, models_dir: Path, *, precision: Precision | None = None) -> Iterator[Path]:
    stored = precision.stored if precision else "*"
    return models_dir.glob(f"{spec.name}-{stored}-{'[0-9a-f]' * 16}")


def _installed(spec: ModelSpec) -> bool:
    try:
        locate(spec)
    except ConfigurationError:
        return False
    return True
