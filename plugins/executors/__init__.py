"""Run the stages' work: in this process, or on a Ray cluster."""
