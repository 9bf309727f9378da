"""Results: cells in files, the rows and tables computed from them, comparisons, leaderboards, and published folders.

Whatever is computed here is computed from cells alone, and the same cells give the same bytes. Nothing here samples,
grades or ranks; what reads a store beside its cells stands in `columns/stored.py`.
"""
