"""Anchorage's service: core contracts, catalog, query path, HTTP API and command line."""
