"""The content-addressed store: keys, stages, shards, and what is missing in them."""
