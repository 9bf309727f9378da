"""Linear algebra that several selectors share."""
