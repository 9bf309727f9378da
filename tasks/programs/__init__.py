"""Grade programs: tests, outcomes and parity with evalplus."""
