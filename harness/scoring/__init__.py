"""Metrics and statistical inference, computed from outcomes alone; no module here reads a file."""

MOST_CORRECT = 500  # the m-th correct response to which metrics go: beyond, the law of its rank leaves a float's range
