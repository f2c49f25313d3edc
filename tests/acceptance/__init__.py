"""Claims about the whole service, with every part real."""
