"""The same work as the stores', written plainly with each engine's own client: what the adapters are measured against.

Each is blocking, fills a collection that the store has made, and reads every column of a hit.
"""
