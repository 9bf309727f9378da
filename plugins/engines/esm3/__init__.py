"""The engine that samples proteins with ESM3, in an environment of its own."""
