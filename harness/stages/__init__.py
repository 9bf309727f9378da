"""One file a verb: sample, embed, verify, rank, and beside them audit and measure."""
