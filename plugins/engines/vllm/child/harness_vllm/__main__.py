"""`python -m harness_vllm SOCKET`: loads a model into vLLM, and answers the harness until it is gone."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import traceback
from typing import Any

from .drawing import Refused, Row
from .wire import Arrays, receive, send, unpacked

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve one connection."""
    _end_with_parent()
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(sys.argv[1])
    send(link, {"pid": os.getpid()})
    served: Any = None
    while (message := receive(link)) is not None:
        asked, arrays = message
        try:
            if asked["do"] == "load":
                served, ready = _loaded(asked)
                send(link, ready)
            else:
                _answer(link, served, asked, arrays)
        except Refused as refusal:
            send(link, {"refused": str(refusal)})
        except Exception as failure:
            traceback.print_exc()
            sys.stderr.flush()
            send(link, {"failed": f"{type(failure).__name__}: {failure}"})
            break  # after an error of vLLM's its state is not to be relied on (EngineDeadError): we are started anew
    os._exit(0)  # what is left of vLLM is ended by who watches us


def _end_with_parent() -> None:
    """Die when the process that started us does. It has one thread, so none of its threads can end before."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _loaded(asked: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from . import contract
    from .loading import load

    served, fault = load(asked)
    return served, {"ready": True, "fault": fault, "vllm": " ".join(contract.installed())}


def _answer(link: socket.socket, served: Any, asked: dict[str, Any], arrays: Arrays) -> None:
    prompts = unpacked("prompts", arrays)
    if asked["do"] == "sample":
        answers = served.sample(asked, prompts)
    else:
        rows = [Row(prompts[0], tokens) for tokens in unpacked("rows", arrays)]
        answers = served.encode(asked, rows) if asked["do"] == "encode" else served.score(rows)
    for head, columns in answers:
        send(link, head, columns)
    send(link, {"end": True})


if __name__ == "__main__":
    main()
