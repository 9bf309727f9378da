"""The engine that samples and encodes with transformers, in this process."""
