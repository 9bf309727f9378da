"""Processes, the terminal, files, and whether the Hugging Face hub is reachable."""
