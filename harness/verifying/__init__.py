"""`harness verify`: pick, verify, write the outcome down, and pick again."""
