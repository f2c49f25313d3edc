"""Texts to vectors: models in this process, the client of another process's models, and the host between them."""

from __future__ import annotations

from rag.embedding.guarded import GuardedEmbedder
from rag.embedding.hashing import HashEmbedder, hash_dimension
from rag.embedding.host import create_model_host
from rag.embedding.local import LocalEmbedder, open_local_embedder
from rag.embedding.remote import RemoteEmbedder, open_remote_embedder
from rag.embedding.tokenizer import load_tokenizer

__all__ = [
    "GuardedEmbedder",
    "HashEmbedder",
    "LocalEmbedder",
    "RemoteEmbedder",
    "create_model_host",
    "hash_dimension",
    "load_tokenizer",
    "open_local_embedder",
    "open_remote_embedder",
]
