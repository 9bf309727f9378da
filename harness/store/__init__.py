"""The content-addressed store: keys, stages, shards, and rows that are still missing."""
