"""What the kernel holds a program to: seccomp, Landlock, resource limits, no capabilities. By ctypes, no dependency.

bubblewrap gives a program its own empty world; where it cannot run, Landlock (Linux 5.13) at least closes the file
system. In both the system calls are filtered (`syscalls.py`). Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Iterable
from os import _exit
from typing import Any

from .syscalls import ARCHITECTURES, LIMIT_SIGNALS, Instruction, seccomp_filter

_SET_DUMPABLE, _SET_DEATH_SIGNAL, _SET_SECCOMP, _DROP_BOUNDING, _NO_NEW_PRIVILEGES = 4, 1, 22, 24, 38
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock's, the same on every architecture
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REAL, _PROFILE = 0, 2  # setitimer's clocks: wall time; CPU time of all threads, user and system

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.syscall.argtypes = [ctypes.c_long] * 5
_libc.syscall.restype = ctypes.c_long
_libc.setitimer.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]

_timer = (ctypes.c_long * 4)()  # struct itimerval: interval s, µs; value s, µs


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction))]


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("directory", ctypes.c_int32)]


def _must(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _system_call(what: str, number: int, *arguments: int) -> int:
    return _must(_libc.syscall(number, *arguments, *[0] * (4 - len(arguments))), what)


# For the process that forks the programs


def give_up_privileges() -> None:
    """No new privileges by exec, no capabilities now or later; no other process may trace or dump this one."""
    _must(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    _must(_libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    for capability in range(64):
        if _libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0) < 0:
            break
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()  # version 3, this process
        _system_call("capset", number, ctypes.addressof(header), ctypes.addressof(none))


def default_signals() -> None:
    """No signal ignored or blocked, whatever the harness was started with: the limits are signals."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in LIMIT_SIGNALS:
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)


def prefer_for_oom() -> None:
    """If memory runs out, the kernel shall kill here, not the harness."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def compile_filter() -> _Program | None:
    """The seccomp filter, ready to install; None on a machine that we have no table for."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        return None
    return _packed(seccomp_filter(machine, ctypes.addressof(_timer)))


def _packed(instructions: list[Instruction]) -> _Program:
    array = (_Instruction * len(instructions))(*(_Instruction(*instruction) for instruction in instructions))
    return _Program(len(instructions), ctypes.cast(array, ctypes.POINTER(_Instruction)))


def landlock_version() -> int:
    """The kernel's Landlock ABI; 0 where it has none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, 0, 0, 1, 0)))


def landlock(readable: Iterable[str], listable: Iterable[str]) -> None:
    """From now on only these paths (with all below them) can be read or listed, and /dev/null written.

    No TCP from ABI 4 on, no signals or abstract sockets to processes outside from ABI 6 on. Raises OSError.
    """
    version = landlock_version()
    if version < 1:
        raise OSError("the kernel has no Landlock")
    files = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, 1 << 14), (5, 1 << 15)):
        files |= right if version >= since else 0
    ruleset = _Ruleset(files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    descriptor = _system_call("Landlock ruleset", _CREATE_RULESET, ctypes.addressof(ruleset), size)
    for path in readable:
        _allow(descriptor, path, _READ_FILE | _READ_DIR)
    for path in listable:
        _allow(descriptor, path, _READ_DIR)
    _allow(descriptor, "/dev/null", _READ_FILE | _WRITE_FILE)
    _system_call("Landlock", _RESTRICT_SELF, descriptor)
    os.close(descriptor)


def _allow(descriptor: int, path: str, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what is not there need not be allowed
        return
    if not os.path.isdir(path):
        access &= ~_READ_DIR
    rule = _PathRule(access, opened)
    _system_call(f"Landlock rule for {path}", _ADD_RULE, descriptor, 1, ctypes.addressof(rule))
    os.close(opened)


# For the process that runs a program


def die_with_parent(parent: int) -> None:
    """SIGKILL as soon as the parent, which has one thread, is gone."""
    _must(_libc.prctl(_SET_DEATH_SIGNAL, 9, 0, 0, 0), "death signal")
    if os.getppid() != parent:
        _exit(1)


def limit_resources(memory_bytes: int, cpu_s: float) -> None:
    """Bounds on address space and CPU time; no file may grow, no core be dumped, 32 files be open."""
    seconds = int(cpu_s) + 1
    bounds = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 32,
    }
    for which, bound in bounds.items():
        most = resource.getrlimit(which)[1]
        soft = bound if most == resource.RLIM_INFINITY else min(bound, most)
        hard = soft + 1 if which == resource.RLIMIT_CPU and soft != most else soft  # SIGKILL comes after SIGXCPU
        resource.setrlimit(which, (soft, hard))


def install(program: _Program) -> None:
    """Filter this process's system calls from now on. Raises OSError."""
    _must(_libc.prctl(_SET_SECCOMP, 2, ctypes.addressof(program), 0, 0), "seccomp")


def arm(cpu_s: float, wall_s: float) -> None:
    """Let the kernel kill this process after so much CPU time (SIGPROF) or wall time (SIGALRM) from now; 0 = never.

    Both signals have their default action, and a program cannot change it: no `except` can swallow them.
    """
    _set(_PROFILE, cpu_s)
    _set(_REAL, wall_s)


def _set(clock: int, seconds: float) -> None:
    whole = int(seconds)
    _timer[2], _timer[3] = whole, int((seconds - whole) * 1e6)
    _libc.setitimer(clock, _timer, None)
