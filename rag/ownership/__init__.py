"""What it takes to own a server process of a folder: its lock, its socket's place, its end, its restarts."""
