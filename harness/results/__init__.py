"""Cells, and everything that is computed from them: groups of seeds, leaderboards, comparisons, published folders."""
