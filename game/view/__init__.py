"""The picture of the village; the only package that imports pygame."""
