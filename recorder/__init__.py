"""The .b22 log: write, read, recover, verify. Knows no game rule."""
