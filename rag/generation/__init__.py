"""Answers from evidence: the prompt, its markers and quotes, extractive answers, and the chat model's client."""

from rag.generation.vllm import open_generator

__all__ = ["open_generator"]
