"""Model folders made once from weights that installed packages carry.

``prepare`` turns the weights of a known model into a plain local folder; ``resolve`` turns any
model setting (known name, folder, name in the local hub cache) into a folder. Nothing here uses a network.
"""

from __future__ import annotations

from rag.models.catalogue import MODELS
from rag.models.prepared import ModelStatus, find_folder, list_models, prepare, resolve
from rag.models.spec import ModelKind, ModelSpec, Precision, Report

__all__ = [
    "MODELS",
    "ModelKind",
    "ModelSpec",
    "ModelStatus",
    "Precision",
    "Report",
    "find_folder",
    "list_models",
    "prepare",
    "resolve",
]
