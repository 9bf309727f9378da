"""The machine around a run: processes, terminal, files from users, and whether the hub is reachable."""
