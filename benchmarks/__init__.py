"""This project beside its peers: each module prints a table and, with --json, one object as its last line."""
