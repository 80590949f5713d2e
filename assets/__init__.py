"""Data shipped with the project; found through `importlib.resources.files("assets")`."""
