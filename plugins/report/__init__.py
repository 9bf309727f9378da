"""`harness report`: the results of a store as one HTML page."""
