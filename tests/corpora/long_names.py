"""Commands, each with one name that is too long for a file."""

LONG = "x" * 5000
WITH_LONG_NAMES = [
    ["run", "--selector", "uniform", "--pool", LONG],
    ["select", "--selector", "uniform", "-k", "1", "--embeddings", f"{LONG}.npz"],
    ["run", "--selector", "uniform", "--task", "game24", "--data", LONG],
    ["run", "--selector", "uniform", "--pool", "pool.jsonl", "--plugin", f"{LONG}.py"], ["leaderboard", LONG],
    ["report", "--cell", LONG], ["pool", "export", LONG, "--out", "y"], ["plot", "passk", LONG],
    ["new", "selector", LONG], ["results", "publish", LONG],
]  # fmt: skip
