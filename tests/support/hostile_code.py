"""Hostile programs (corpora/hostile_programs.py) in the sandbox, and the surroundings in which their harm is seen.

Every program should define `solve(x)`; right is `x * FACTOR + SUMMAND` with secret numbers, so whatever is right was
stolen. They know where to strike: `@NAME@` in a program becomes a path, a port or a process id of the surroundings.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  # what is imported late could not be read any more, see main
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from corpora import hostile_programs as corpus

from harness import HarnessError
from harness_tasks.sandbox import Run, Sandbox, Suite, encode
from support.processes import descendants
from support.sandboxes import programs_cpu_s

FACTOR, SUMMAND = secrets.randbits(60) | 1, secrets.randbits(60)
INPUTS = [[3], [5], [8]]
EXPECTED = [encode(x * FACTOR + SUMMAND) for (x,) in INPUTS]
HONEST = f"def solve(x): return x * {FACTOR} + {SUMMAND}"
MOST_CPU_S = 10.0  # of one attack: the suite's second, the two in which it is defined, and a wide margin
SUITE = Suite("solve", INPUTS, [0.2] * 3, memory_bytes=256 << 20, output_bytes=1 << 20, total_cpu_s=1.0)

# What a program can see of the process it starts in: must be the same for every program.
FINGERPRINT = """
import builtins, decimal, gc, os, random, signal, sys, threading, time, warnings
def solve(x):
    return [
        sorted(vars(builtins)), sorted(name for name in sys.modules if name != "program"), dict(os.environ),
        os.getcwd(), sys.path, [str(signal.getsignal(number)) for number in range(1, 32)],
        signal.getitimer(signal.ITIMER_VIRTUAL), sys.getrecursionlimit(), sys.get_int_max_str_digits(),
        gc.isenabled(), gc.get_threshold(), str(decimal.getcontext()), threading.active_count(),
        threading.stack_size(), random.random(), len(warnings.filters), sys.getswitchinterval(),
        sys.gettrace() is None, len("abc"), int("7"), sorted([2, 1]), isinstance(1, int), print is builtins.print,
        descriptors(),
    ]
def descriptors():
    try: return sorted(os.listdir("/dev/fd"))
    except OSError: return []
"""


class Attack(NamedTuple):
    """One program; `steals`: it only reads, which the tier "none" does not prevent."""

    name: str
    program: str
    steals: bool = False


class Surroundings:
    """Files, an environment variable, listeners and a process, to be spied out or damaged."""

    def __init__(self, folder: Path):
        self.folder, self.word = folder, "canary" + secrets.token_hex(8)
        self.secret, self.victim, self.unix = folder / "secret", folder / "victim", folder / "listener"
        self.secret.write_text(self.word)
        self.victim.write_text("untouched")
        os.chmod(folder, 0o777)  # as open as can be: only the sandbox stands before it
        os.chmod(self.victim, 0o666)
        self.before = self._listing()
        self.tcp, self.udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.path, self.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.listeners = [self.tcp, self.udp, self.path, self.abstract]
        addresses = ("127.0.0.1", 0), ("127.0.0.1", 0), str(self.unix), f"\0{self.word}"
        for listener, address in zip(self.listeners, addresses, strict=True):
            listener.bind(address)
            listener.setblocking(False)
            if listener is not self.udp:
                listener.listen()
        self.process = subprocess.Popen(["sleep", "600"])
        os.environ["HARNESS_CANARY"] = self.word

    def program(self, attack: Attack) -> str:
        """The attack's program, aimed at these surroundings."""
        ports = {"TCP": self.tcp.getsockname()[1], "UDP": self.udp.getsockname()[1]}
        places = {"FOLDER": self.folder, "SECRET": self.secret, "VICTIM": self.victim, "UNIX": self.unix}
        aims = ports | places | {"ABSTRACT": self.word, "PID": self.process.pid, "HARNESS": os.getpid()}
        return re.sub("@([A-Z]+)@", lambda match: str(aims[match[1]]), attack.program)

    def damage(self) -> Iterator[str]:
        """What was done to them, in words."""
        if self._listing() != self.before:
            yield f"files: {self._listing()}"
        if self.process.poll() is not None:
            yield "the process was ended"
        for listener in (self.tcp, self.path, self.abstract):
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                yield f"a connection to {listener.getsockname()}"
        with contextlib.suppress(BlockingIOError):
            yield f"a datagram {self.udp.recv(100)!r}"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for listener in self.listeners:
            listener.close()
        os.environ.pop("HARNESS_CANARY", None)

    def _listing(self) -> dict[str, tuple[str, int]]:
        known = {path.name: (path.read_text(), path.stat().st_mode) for path in (self.secret, self.victim)}
        return {path.name: ("", 0) for path in self.folder.iterdir() if path != self.unix} | known


@contextlib.contextmanager
def surroundings() -> Iterator[Surroundings]:
    folder = tempfile.TemporaryDirectory(prefix="attacked-")
    with folder, contextlib.closing(Surroundings(Path(folder.name))) as around:
        yield around


def complaints(sandbox: Sandbox, attacks: list[Attack]) -> list[str]:
    """What went wrong when these programs ran, one after the other, on a sandbox with one worker."""
    faults: list[str] = []
    with surroundings() as around:
        fingerprint = sandbox.run_all(SUITE, [FINGERPRINT, "import numpy"])[0]  # both kinds of workers
        if fingerprint.status != "ok":
            return [f"the fingerprint: {fingerprint}"]
        family = len(descendants())
        for attack in attacks:
            before_s = programs_cpu_s(sandbox)
            (run,) = sandbox.run_all(SUITE, [around.program(attack)], stop_at_raise=False)
            cpu_s = programs_cpu_s(sandbox) - before_s
            problems = list(_problems(run, around))
            if cpu_s > MOST_CPU_S:
                problems.append(f"took {cpu_s:.1f} CPU s")
            after = sandbox.run_all(SUITE, [HONEST, FINGERPRINT])
            if after[0].results != EXPECTED:
                problems.append(f"the honest program after it: {after[0]}")
            if after[1].results != fingerprint.results:
                problems.append(f"the next program sees {after[1]}")
            if len(descendants()) != family:
                problems.append(f"processes {descendants()}, not {family}")
            faults += [f"{attack.name}: {problem}" for problem in problems]
    return faults


def _problems(run: Run, around: Surroundings) -> Iterator[str]:
    if any(result == expected for result, expected in zip(run.results, EXPECTED, strict=False)):
        yield f"forged a result: {run}"
    if run.status == "error":
        yield f"made it our fault: {run}"
    if "ENameError" in run.results:
        yield f"is no attack: {run}"
    if around.word in repr(run):
        yield f"stole a secret: {run}"
    yield from around.damage()


# Before a program that uses them: `libc`, and `tried(action)`, which gives its result or the name of its exception
STRIKE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(action):
    try: return action()
    except BaseException as problem: return type(problem).__name__
"""


def _attacks(text: str, steals: bool = False) -> list[Attack]:
    """Lines `## NAME` part programs."""
    parts = [part.split("\n", 1) for part in re.split("^## ", text, flags=re.M)[1:]]
    return [
        Attack(name, STRIKE * ("tried(" in program or "libc" in program) + program, steals) for name, program in parts
    ]


SOURCES = [Attack(name, program) for name, program in corpus.SOURCES.items()]
QUICK = [*_attacks(corpus.FORGERY + corpus.PROCESSES + corpus.FILES), *_attacks(corpus.SPYING, steals=True)]
QUICK += [*_attacks(corpus.NETWORK + corpus.MEMORY + corpus.RESULTS), *SOURCES]
LONG = _attacks(corpus.TIME)


def main(tier: str, uid: int, which: str) -> None:
    """Run attacks as a user and print, as JSON, what went wrong, or why they cannot be run.

    The user may not be able to read this interpreter, so all is imported before we become that user.
    """
    if uid != os.getuid():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    try:
        sandbox = Sandbox(1, tier=tier, unsafe_exec=True)
    except HarnessError as refusal:
        print(json.dumps({"refused": str(refusal)}))
        return
    with sandbox:
        attacks = {"some": QUICK[1::3], "quick": QUICK, "long": LONG}[which]
        attacks = [attack for attack in attacks if tier != "none" or not attack.steals]
        print(json.dumps({"attacks": len(attacks), "complaints": complaints(sandbox, attacks)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
