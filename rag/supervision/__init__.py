"""One supervisor process that owns a data folder and everything that runs on it."""
