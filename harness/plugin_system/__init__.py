"""Plugins: found, loaded, built from their specs, hashed, listed, started from a template."""
