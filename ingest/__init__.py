"""Ingest: parsing in killable children, chunking, the worker."""
