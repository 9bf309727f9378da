"""`harness new`: start a plugin of your own from a small package that works."""
