"""From settings to open parts: the only place where they meet.

``open_services`` opens what the API needs, ``open_storage`` what the ingest worker shares with it,
``run_service`` runs the whole service.
"""

from __future__ import annotations

from rag.wiring.maintenance import open_parts
from rag.wiring.models import Models, open_models
from rag.wiring.services import open_services
from rag.wiring.serving import limits_of, run_service, serve, socket_of_models
from rag.wiring.storage import Storage, open_catalog_for, open_postgres, open_storage
from rag.wiring.store_identity import check_noted_store, store_of

__all__ = [
    "Models",
    "Storage",
    "check_noted_store",
    "limits_of",
    "open_catalog_for",
    "open_models",
    "open_parts",
    "open_postgres",
    "open_services",
    "open_storage",
    "run_service",
    "serve",
    "socket_of_models",
    "store_of",
]
