"""Run the stages' work on a Ray cluster."""
