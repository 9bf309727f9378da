"""Stores of older versions and damaged ones: found, repaired, taken over."""
