"""The catalog on Postgres: collections, documents, jobs and what is being served."""

from rag.catalog.catalog import Catalog, open_catalog

__all__ = ["Catalog", "open_catalog"]
