"""Pools made elsewhere: read them, join them to a task's problems, and add your own vectors."""
