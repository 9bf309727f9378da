"""Put a process under limits that the kernel enforces: seccomp, Landlock, resource limits, no capabilities.

bubblewrap gives a program an empty file system and namespaces. Where bubblewrap cannot run, Landlock (Linux 5.13) at
least closes the file system. In both cases the system calls are filtered (`syscalls.py`). This module runs inside the
sandbox and uses ctypes: standard library only.
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


def _checked(result: int, name: str) -> int:
    """Return the result of a C function. Raises OSError with the function's name if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _system_call(name: str, number: int, *arguments: int) -> int:
    return _checked(_libc.syscall(number, *arguments, *[0] * (4 - len(arguments))), name)


# For the process that forks the programs


def give_up_privileges() -> None:
    """Drop all capabilities for good, forbid new privileges by exec, and forbid other processes to trace this one."""
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    _checked(_libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    for capability in range(64):
        if _libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0) < 0:
            break
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()  # version 3, this process
        _system_call("capset", number, ctypes.addressof(header), ctypes.addressof(none))


def default_signals() -> None:
    """Unblock all signals and reset the limits' signals to their default action, since limits work by signals."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in LIMIT_SIGNALS:
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)


def prefer_for_oom() -> None:
    """Make this process the first that the kernel kills if memory runs out, before the harness."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def compile_filter() -> _Program | None:
    """Return the seccomp filter, ready to install; None for a machine without a table of system calls."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        return None
    return _packed(seccomp_filter(machine, ctypes.addressof(_timer)))


def _packed(instructions: list[Instruction]) -> _Program:
    array = (_Instruction * len(instructions))(*(_Instruction(*instruction) for instruction in instructions))
    return _Program(len(instructions), ctypes.cast(array, ctypes.POINTER(_Instruction)))


def landlock_version() -> int:
    """Return the version of the kernel's Landlock ABI; 0 if it has no Landlock."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, 0, 0, 1, 0)))


def landlock(readable: Iterable[str], listable: Iterable[str]) -> None:
    """Limit this process to reading or listing these paths, with all below them, and writing to /dev/null.

    From ABI 4 on TCP is forbidden too, from ABI 6 on signals and abstract sockets to other processes. Raises OSError.
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
    except OSError:  # a path that does not exist needs no rule
        return
    if not os.path.isdir(path):
        access &= ~_READ_DIR
    rule = _PathRule(access, opened)
    _system_call(f"Landlock rule for {path}", _ADD_RULE, descriptor, 1, ctypes.addressof(rule))
    os.close(opened)


# For the process that runs a program


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent, which has one thread, ends.

    parent   the parent's process id; if the parent has ended already, this process exits
    """
    _checked(_libc.prctl(_SET_DEATH_SIGNAL, 9, 0, 0, 0), "death signal")
    if os.getppid() != parent:
        _exit(1)


def limit_resources(memory_bytes: int, cpu_s: float) -> None:
    """Limit address space and CPU time; no file may grow, no core is dumped, at most 32 files may be open."""
    seconds = int(cpu_s) + 1
    bounds = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 32,
    }
    for kind, bound in bounds.items():
        old_hard = resource.getrlimit(kind)[1]
        soft = bound if old_hard == resource.RLIM_INFINITY else min(bound, old_hard)
        hard = soft + 1 if kind == resource.RLIMIT_CPU and soft != old_hard else soft  # SIGKILL comes after SIGXCPU
        resource.setrlimit(kind, (soft, hard))


def install(program: _Program) -> None:
    """Filter this process's system calls from now on. Raises OSError."""
    _checked(_libc.prctl(_SET_SECCOMP, 2, ctypes.addressof(program), 0, 0), "seccomp")


def arm(cpu_s: float, wall_s: float) -> None:
    """Have the kernel kill this process after `cpu_s` seconds of CPU time or `wall_s` seconds of wall time from now.

    0 switches a limit off. The signals are SIGPROF and SIGALRM, whose default action is to kill; where the seccomp
    filter is installed, a program cannot change that, so no `except` can catch them.
    """
    _set(_PROFILE, cpu_s)
    _set(_REAL, wall_s)


def _set(clock: int, seconds: float) -> None:
    whole_seconds = int(seconds)
    _timer[2], _timer[3] = whole_seconds, int((seconds - whole_seconds) * 1e6)
    _libc.setitimer(clock, _timer, None)
