"""`harness cost` and its kin: what a selector costs in seconds, and what it saves in verdicts."""
