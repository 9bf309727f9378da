"""A run from its config to its rows: plan, pipeline, and the jobs beside them."""
