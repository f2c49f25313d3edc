"""Cross-encoder reranking and the weights it ships."""
