"""The command line: a file for each group of commands, and the tables that they print."""

from .commands import main as main
