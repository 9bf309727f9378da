"""Answers to prompts of the task proteins, each with why it cannot be one; "" where it may be."""

PROTEIN_ANSWERS = [
    ("____", "MKT", "length 3, asked for 4"), ("____", "MKTAA", "length 5, asked for 4"),
    ("____", "MK-A", "no amino acid: '-' at 3"), ("____", "mkta", "no amino acid: 'm' at 1"),
    ("____", "", "length 0 is outside 1..1022"), ("_KT_", "MKAA", "the letter at 3 was given"),
    ("", "A" * 1023, "length 1023 is outside 1..1022"), ("_KT_", "MKTA", ""), ("", "MKTX", ""),
]  # fmt: skip
