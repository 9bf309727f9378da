"""Metrics and statistical inference, computed from outcomes alone; no module here reads a file."""
