"""Games that are not the village, with a character of their own that learns. See docs/embedding.md."""
