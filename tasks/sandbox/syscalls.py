"""The system calls that a program may make, and the seccomp filter (classic BPF) that allows only these.

The list has no socket, fork, exec, kill, ptrace, prctl, unlink or rename, and files open for reading only. All other
calls fail with EPERM. From number 424 on they fail with ENOSYS, so that libc falls back from newer calls to those on
the list: from clone3, whose flags a filter cannot see, to clone. Some calls are allowed only with certain arguments:

- clone only for threads;
- setitimer only from one address in memory, where the sandbox keeps its own limits. A program's `signal.alarm(0)` or
  `setitimer` does not remove them, and it cannot ignore (rt_sigaction) or block (rt_sigprocmask) the timers' signals;
- fcntl without F_SETOWN and F_SETSIG, with which the kernel can be made to send SIGKILL to any process.

The filter for x86_64 has been run. That for aarch64 has not been run on real hardware: its table is checked against
Linux's asm-generic/unistd.h, and the filter in an interpreter. This module runs inside the sandbox (and in tests):
standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant
Condition = tuple[str, int, Sequence[int]]  # test, argument, constants

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000  # x86_64's other calling convention: numbers from here on
UNIFIED = 424  # from here on a call has the same number on every architecture: calls of Linux 5.1 and later

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | 1, 0x00050000 | 38

# name: number on x86_64, number on aarch64; None if the architecture has no such call
NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "access": (21, None),
    "brk": (12, 214),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "clone": (56, 220),
    "close": (3, 57),
    "dup": (32, 23),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "fcntl": (72, 25),
    "fstat": (5, 80),
    "futex": (202, 98),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getitimer": (36, 102),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getrandom": (318, 278),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "getuid": (102, 174),
    "ioctl": (16, 29),
    "lseek": (8, 62),
    "lstat": (6, None),
    "madvise": (28, 233),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "nanosleep": (35, 101),
    "newfstatat": (262, 79),
    "openat": (257, 56),
    "pipe2": (293, 59),
    "poll": (7, None),
    "ppoll": (271, 73),
    "pread64": (17, 67),
    "prlimit64": (302, 261),
    "pselect6": (270, 72),
    "read": (0, 63),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "readv": (19, 65),
    "restart_syscall": (219, 128),
    "rseq": (334, 293),
    "rt_sigaction": (13, 134),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "select": (23, None),
    "set_robust_list": (273, 99),
    "setitimer": (38, 103),
    "sigaltstack": (131, 132),
    "stat": (4, None),
    "statx": (332, 291),
    "sysinfo": (99, 179),
    "time": (201, None),
    "times": (100, 153),
    "uname": (63, 160),
    "write": (1, 64),
    "writev": (20, 66),
}

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
    program = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, KILL)]
    program.append((_LOAD, 0, 0, _NUMBER))
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, X32), (_RETURN, 0, 0, EPERM)]
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
