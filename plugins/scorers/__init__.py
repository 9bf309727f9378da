"""Scorers: they give each response a number for selectors to read, and verify nothing."""
