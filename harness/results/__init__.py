"""Cells, and all that is made of them: groups of seeds, leaderboards, comparisons, published folders."""
