"""The machine around a run: processes, terminal, files given by users, whether the hub answers."""
