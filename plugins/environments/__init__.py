"""Find and check the Python environments that an engine or a trainer needs besides this one."""
