"""The command line: one file for each group of commands, and a file with the tables that they print."""

from . import run_commands, select_commands, verify_commands, result_commands, plugin_commands  # noqa: F401, I001  (in the order of --help)
from .app import complete as complete
from .app import main as main
