"""The commands of the ingest side: ``anchorage ingest`` and ``anchorage worker``."""
