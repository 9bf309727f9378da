"""The command line: the commands that work, those that read, and the tables that they print."""

import signal
import threading


def _leave(*_: object) -> None:
    raise SystemExit(130)


# The imports below take half a second; Ctrl-C in them would be a traceback.
_is_default = (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _is_default:
    signal.signal(signal.SIGINT, _leave)
try:
    from . import run_commands, read_commands  # noqa: F401, I001  (in the order of --help)
    from .app import complete as complete
    from .app import main as main
finally:
    if _is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
