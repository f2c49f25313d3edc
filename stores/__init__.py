"""Vector stores behind one port, found through the entry-point group ``anchorage.stores``."""
