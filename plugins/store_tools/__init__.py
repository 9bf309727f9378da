"""`harness store`: what a store holds, and what of it can be deleted."""
