"""Pools made elsewhere: read, joined to a task's problems, with vectors of one's own."""
