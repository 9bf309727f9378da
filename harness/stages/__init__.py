"""The verbs, one file each: sample, embed, verify, rank; beside them audit, chance and measure."""
