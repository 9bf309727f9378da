"""Put a process under limits that the kernel enforces: seccomp, Landlock, resource limits, no capabilities.

bubblewrap gives a program an empty file system and namespaces. Where bubblewrap cannot run, Landlock (Linux 5.13) at
least closes the file system. In both cases a seccomp filter (classic BPF) allows only the system calls in `NUMBERS`:
no socket, fork, exec, kill, ptrace, prctl, unlink or rename, and files open for reading only. All other calls fail with
EPERM. From number 424 on they fail with ENOSYS, so that libc falls back from newer calls to those on the list: from
clone3, whose flags a filter cannot see, to clone. Some calls are allowed only with certain arguments:

- clone only for threads;
- setitimer only from one address in memory, where the sandbox keeps its own limits. A program's `signal.alarm(0)` or
  `setitimer` does not remove them, and it cannot ignore (rt_sigaction) or block (rt_sigprocmask) the timers' signals;
- fcntl without F_SETOWN and F_SETSIG, with which the kernel can be made to send SIGKILL to any process.

The filter for x86_64 has been run. That for aarch64 has not been run on real hardware: its table is checked against
Linux's asm-generic/unistd.h, and the filter in an interpreter. This module runs inside the sandbox: standard library
only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import _exit
from typing import Any

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant
Condition = tuple[str, int, Sequence[int]]  # test, argument, constants

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
UNIFIED = 424  # from here on: calls of Linux 5.1 and later, and x86_64's other calling convention (x32)

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | 1, 0x00050000 | 38

# name, number on x86_64, number on aarch64; "-" if the architecture has no such call
_CALLS = """
    access 21 -                brk 12 214                 clock_getres 229 114       clock_gettime 228 113
    clock_nanosleep 230 115    clone 56 220               close 3 57                 dup 32 23
    exit 60 93                 exit_group 231 94          faccessat 269 48           faccessat2 439 439
    fcntl 72 25                fstat 5 80                 futex 202 98               getcwd 79 17
    getdents64 217 61          getegid 108 177            geteuid 107 175            getgid 104 176
    getitimer 36 102           getpid 39 172              getppid 110 173            getrandom 318 278
    getrlimit 97 163           getrusage 98 165           gettid 186 178             gettimeofday 96 169
    getuid 102 174             ioctl 16 29                lseek 8 62                 lstat 6 -
    madvise 28 233             mmap 9 222                 mprotect 10 226            mremap 25 216
    munmap 11 215              nanosleep 35 101           newfstatat 262 79          openat 257 56
    pipe2 293 59               poll 7 -                   ppoll 271 73               pread64 17 67
    prlimit64 302 261          pselect6 270 72            read 0 63                  readlink 89 -
    readlinkat 267 78          readv 19 65                restart_syscall 219 128    rseq 334 293
    rt_sigaction 13 134        rt_sigreturn 15 139        sched_getaffinity 204 123  sched_yield 24 124
    select 23 -                set_robust_list 273 99     setitimer 38 103           sigaltstack 131 132
    stat 4 -                   statx 332 291              sysinfo 99 179             time 201 -
    times 100 153              uname 63 160               write 1 64                 writev 20 66
"""
_words = _CALLS.split()
_columns = [[None if word == "-" else int(word) for word in _words[place::3]] for place in (1, 2)]
NUMBERS: Mapping[str, tuple[int | None, int | None]] = dict(zip(_words[::3], zip(*_columns, strict=True), strict=True))

CLONE_THREAD = 0x10000
WRITING = 0x1 | 0x2 | 0x40 | 0x200 | 0x400 | 0x400000  # O_WRONLY, RDWR, CREAT, TRUNC, APPEND, TMPFILE
FCNTL = (0, 1, 2, 3, 1030)  # F_DUPFD, GETFD, SETFD, GETFL, DUPFD_CLOEXEC
IOCTL = (0x5401, 0x5450, 0x5451, 0x541B)  # TCGETS, FIONCLEX, FIOCLEX, FIONREAD
LIMIT_SIGNALS = (9, 14, 19, 24, 27)  # SIGKILL, ALRM, STOP, XCPU, PROF

CONDITIONS: Mapping[str, Condition] = {
    "clone": ("has", 0, (CLONE_THREAD,)),
    "fcntl": ("one of", 1, FCNTL),
    "ioctl": ("one of", 1, IOCTL),
    "openat": ("has none", 2, (WRITING,)),
    "prlimit64": ("pointer", 2, (0,)),  # reading a limit, not setting one
    "rt_sigaction": ("none of", 0, LIMIT_SIGNALS),
}

# A filter reads: struct seccomp_data {int nr; u32 arch; u64 instruction_pointer; u64 args[6]}
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def seccomp_filter(machine: str, timer_address: int) -> list[Instruction]:
    """Return the filter for a machine (`os.uname().machine`) as BPF instructions. Raises KeyError for an unknown one.

    timer_address   the address from which setitimer is allowed
    """
    architecture, column = ARCHITECTURES[machine], list(ARCHITECTURES).index(machine)
    numbers = {name: number for name, both in NUMBERS.items() if (number := both[column]) is not None}
    conditions = {**CONDITIONS, "setitimer": ("pointer", 1, (timer_address,))}
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for name, number in numbers.items():
        action = list(_conditional(conditions[name])) if name in conditions else [(_RETURN, 0, 0, ALLOW)]
        program += [(_EQUAL, 0, len(action), number), *action]
    return [*program, (_AT_LEAST, 0, 1, UNIFIED), (_RETURN, 0, 0, ENOSYS), (_RETURN, 0, 0, EPERM)]


def _conditional(condition: Condition) -> Iterator[Instruction]:
    """Yield the instructions that load an argument, test it, and return ALLOW or EPERM."""
    test, argument, constants = condition
    low = _ARGUMENTS + 8 * argument  # both architectures are little-endian
    allow, refuse = (_RETURN, 0, 0, ALLOW), (_RETURN, 0, 0, EPERM)
    yield (_LOAD, 0, 0, low)
    if test == "pointer":
        yield from [(_EQUAL, 1, 0, constants[0] & 0xFFFFFFFF), refuse]
        yield from [(_LOAD, 0, 0, low + 4), (_EQUAL, 1, 0, constants[0] >> 32), refuse, allow]
        return
    jump = _EQUAL if test in ("one of", "none of") else _ANY_BIT
    for constant in constants:
        yield from [(jump, 0, 1, constant), allow if test in ("one of", "has") else refuse]
    yield refuse if test in ("one of", "has") else allow


# Calls of the kernel

_SET_DUMPABLE, _SET_DEATH_SIGNAL, _SET_SECCOMP, _DROP_BOUNDING, _NO_NEW_PRIVILEGES = 4, 1, 22, 24, 38
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock's, the same on every architecture
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 4]  # a number, or bytes to point to
_libc.syscall.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 4]
_libc.syscall.restype = ctypes.c_long
_libc.setitimer.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]

_timer = (ctypes.c_long * 4)()  # struct itimerval: interval s, µs; value s, µs


def _checked(what: str, call: Any, *arguments: int | bytes) -> int:
    """Call prctl or syscall, both with five arguments. Raises OSError."""
    result: int = call(*arguments, *[0] * (5 - len(arguments)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


# For the process that forks the programs; all raise OSError if the kernel refuses


def give_up_privileges() -> None:
    """Drop all capabilities for good, forbid new privileges by exec, and forbid other processes to trace this one.

    Signals are unblocked, and those by which limits work get their default action. If memory runs out, this process and
    its children are the first that the kernel kills, before the harness.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in {*LIMIT_SIGNALS} - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    _checked("no_new_privs", _libc.prctl, _NO_NEW_PRIVILEGES, 1)
    _checked("dumpable", _libc.prctl, _SET_DUMPABLE, 0)
    for capability in range(64):
        if _libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0) < 0:
            break
    if capset := _CAPSET.get(os.uname().machine):  # version 3, this process; none
        _checked("capset", _libc.syscall, capset, struct.pack("Ii", 0x20080522, 0), bytes(24))


class Filter:
    """The seccomp filter of this machine, ready to install. Raises KeyError where there is no table of calls for it."""

    def __init__(self) -> None:
        instructions = seccomp_filter(os.uname().machine, ctypes.addressof(_timer))
        code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
        self._code = ctypes.create_string_buffer(code, len(code))
        self._program = struct.pack("HP", len(instructions), ctypes.addressof(self._code))

    def install(self) -> None:
        """Filter this process's system calls from now on."""
        _checked("seccomp", _libc.prctl, _SET_SECCOMP, 2, self._program)


def landlock(readable: Iterable[str], listable: Iterable[str]) -> None:
    """Limit this process to reading or listing these paths, with all below them, and writing to /dev/null.

    From ABI 4 on TCP is forbidden too, from ABI 6 on signals and abstract sockets to other processes.
    """
    version = _libc.syscall(_CREATE_RULESET, 0, 0, 1, 0)
    if version < 1:
        raise OSError("the kernel has no Landlock")
    files = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, 1 << 14), (5, 1 << 15)):
        files |= right if version >= since else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8  # of: files, network, what is scoped
    descriptor = _checked(
        "Landlock ruleset", _libc.syscall, _CREATE_RULESET, struct.pack("QQQ", files, 3, 3)[:size], size
    )
    rules = [*((path, _READ_FILE | _READ_DIR) for path in readable), *((path, _READ_DIR) for path in listable)]
    for path, access in [*rules, ("/dev/null", _READ_FILE | _WRITE_FILE)]:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # a path that does not exist needs no rule
            continue
        if not os.path.isdir(path):
            access &= ~_READ_DIR
        _checked(
            f"Landlock rule for {path}", _libc.syscall, _ADD_RULE, descriptor, 1, struct.pack("=Qi", access, opened)
        )
        os.close(opened)
    _checked("Landlock", _libc.syscall, _RESTRICT_SELF, descriptor)
    os.close(descriptor)


# For the process that runs a program


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent, which has one thread, ends; exit if it has ended already."""
    _checked("death signal", _libc.prctl, _SET_DEATH_SIGNAL, 9)
    if os.getppid() != parent:
        _exit(1)


def address_space() -> int:
    """Return the bytes of this process's address space."""
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()


def limit_resources(memory_bytes: int, cpu_s: float) -> None:
    """Limit address space and CPU time; no file may grow, no core is dumped, at most 32 files may be open."""
    bounds = {resource.RLIMIT_AS: memory_bytes, resource.RLIMIT_CPU: int(cpu_s) + 1, resource.RLIMIT_NOFILE: 32}
    for kind, bound in (bounds | {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}).items():
        old_hard = resource.getrlimit(kind)[1]
        soft = bound if old_hard == resource.RLIM_INFINITY else min(bound, old_hard)
        hard = soft + 1 if kind == resource.RLIMIT_CPU and soft != old_hard else soft  # SIGKILL comes after SIGXCPU
        resource.setrlimit(kind, (soft, hard))


def arm(cpu_s: float) -> None:
    """Have the kernel kill this process after so many seconds of CPU time, of all its threads, from now; 0: never.

    The signal is SIGPROF, whose default action is to kill; where the seccomp filter is installed, a program cannot
    change that, so no `except` can catch it.
    """
    _timer[2], _timer[3] = int(cpu_s), int(cpu_s % 1 * 1e6)
    _libc.setitimer(signal.ITIMER_PROF, _timer, None)
