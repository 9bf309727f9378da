"""Metrics and statistical inference from outcomes alone: nothing here reads a file."""
