"""`python -m harness_vllm SOCKET`: load a model into vLLM, and answer the harness until it disconnects."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from typing import Any

from .protocol import Arrays, receive, send, unpacked
from .sampling import Refused, Row


def main() -> None:
    """Serve one connection."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(sys.argv[1])
    send(link, {"pid": os.getpid()})
    served: Any = None
    while (message := receive(link)) is not None:
        head, arrays = message
        try:
            if head["do"] == "load":
                from .loading import installed, load

                served, fault = load(head)
                about = {"fault": fault, "vllm": " ".join(installed()), "runner": served.runner}
                send(link, {"ready": True, **about})
            else:
                _answer(link, served, head, arrays)
        except Refused as refusal:
            send(link, {"refused": str(refusal)})
        except Exception as failure:
            traceback.print_exc()
            sys.stderr.flush()
            send(link, {"failed": f"{type(failure).__name__}: {failure}"})
            break  # vLLM cannot be used after an error (EngineDeadError): the harness starts it again
    os._exit(0)  # the warden ends what is left of vLLM


def _answer(link: socket.socket, served: Any, head: dict[str, Any], arrays: Arrays) -> None:
    prompts = unpacked("prompts", arrays)
    if head["do"] == "sample":
        served.counts.tokens = served.counts.rows = 0
        served.counts.report = lambda tokens, rows: send(link, {"tokens": tokens, "rows": rows})
        answers = served.sample(head, prompts)
    else:
        rows = [Row(prompts[0], tokens) for tokens in unpacked("rows", arrays)]
        answers = served.encode(head, rows) if head["do"] == "encode" else served.score(rows)
    for finished, columns in answers:
        send(link, finished, columns)
    if head["do"] == "sample":
        served.counts.report(served.counts.tokens, 0)
        served.counts.report = lambda tokens, rows: None
    send(link, {"end": True})


if __name__ == "__main__":
    main()
