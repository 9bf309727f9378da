"""One reader for each layout of pool files."""
