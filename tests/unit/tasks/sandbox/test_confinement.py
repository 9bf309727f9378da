"""What a confined process may still do; and the seccomp filter, in an interpreter of classic BPF."""

import os
import re
import struct
from pathlib import Path

import pytest
from support.processes import printed_by

from harness_tasks.sandbox import confinement
from harness_tasks.sandbox.confinement import ALLOW, ARCHITECTURES, ENOSYS, EPERM, KILL, NUMBERS

MACHINES = {"x86_64": 0, "aarch64": 1}
# Calls that no program may make, whatever their arguments
DANGEROUS = """
socket socketpair connect bind sendto sendmsg fork vfork execve execveat kill tkill tgkill rt_sigqueueinfo
pidfd_send_signal pidfd_getfd ptrace process_vm_readv process_vm_writev prctl seccomp setrlimit open creat unlink
unlinkat rename renameat renameat2 rmdir mkdir mkdirat link linkat symlink symlinkat chmod fchmod fchmodat chown
fchownat truncate ftruncate fallocate mknodat utimensat setxattr mount umount2 chroot pivot_root unshare setns bpf
userfaultfd perf_event_open io_uring_setup memfd_create keyctl add_key name_to_handle_at open_by_handle_at
init_module reboot setuid capset personality setsid umask chdir fchdir dup2 dup3 rt_sigprocmask timer_create
timer_settime alarm shmget mq_open splice sendfile clone3 openat2 landlock_create_ruleset mlock sched_setscheduler
setpriority process_madvise fsconfig sethostname
"""

TIMER = 0x7F12_3456_7890  # the address of the sandbox's own timer
CONDITIONAL = [  # calls that are allowed with some arguments only
    ("openat", (-100, 0, os.O_RDONLY | os.O_CLOEXEC), True), ("openat", (-100, 0, os.O_WRONLY), False),
    ("openat", (-100, 0, os.O_RDWR), False), ("openat", (-100, 0, os.O_CREAT), False),
    ("openat", (-100, 0, os.O_TRUNC), False), ("openat", (-100, 0, os.O_APPEND), False),
    ("openat", (-100, 0, 0o20000000), False), ("clone", (0x3D0F00,), True),  # glibc's pthread_create
    ("clone", (17,), False), ("clone", (0x4111,), False),  # vfork
    ("clone", (0x3D0F00 & ~0x10000,), False), ("fcntl", (3, 1), True), ("fcntl", (3, 1030, 3), True),
    ("fcntl", (3, 4, 0o20000), False), ("fcntl", (3, 8, 1), False), ("fcntl", (3, 10, 9), False),
    ("fcntl", (3, 1024), False), ("ioctl", (3, 0x5401), True), ("ioctl", (3, 0x5412), False),
    ("setitimer", (2, TIMER), True), ("setitimer", (2, TIMER + (1 << 32)), False),
    ("setitimer", (2, TIMER + 8), False), ("setitimer", (0, 0), False), ("rt_sigaction", (2, 1), True),
    ("rt_sigaction", (27, 1), False), ("rt_sigaction", (14, 1), False), ("rt_sigaction", (24, 1), False),
    ("prlimit64", (0, 9, 0, 1), True), ("prlimit64", (0, 9, 1 << 33), False), ("prlimit64", (0, 9, 4096), False),
]  # fmt: skip


def verdict(program, machine, number, *arguments, architecture=None):
    """What a seccomp filter says, as the kernel runs it."""
    arguments = [value & 0xFFFFFFFFFFFFFFFF for value in (*arguments, *[0] * 6)][:6]
    data = struct.pack("<iIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *arguments)
    accumulator, position = 0, 0
    while True:
        code, yes, no, constant = program[position]
        position += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, constant)[0]
        elif code == 0x06:
            return constant
        else:
            holds = {0x15: accumulator == constant, 0x35: accumulator >= constant, 0x45: accumulator & constant}[code]
            position += yes if holds else no


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_allows_what_is_on_its_list_some_of_it_with_some_arguments_and_nothing_else(machine):
    program, column = confinement.seccomp_filter(machine, TIMER), MACHINES[machine]
    named = {both[column] for both in NUMBERS.values()}
    free = {NUMBERS[name][column] for name in NUMBERS.keys() - confinement.CONDITIONS - {"setitimer"}}
    for number in range(600):
        answer = verdict(program, machine, number)
        assert (answer == ALLOW) >= (number in free), number
        if number not in named:
            assert answer == (ENOSYS if number >= 424 else EPERM), number
    assert not NUMBERS.keys() & set(DANGEROUS.split())
    for name, arguments, allowed in CONDITIONAL:
        answer = verdict(program, machine, NUMBERS[name][column], *arguments)
        assert answer == (ALLOW if allowed else EPERM), (name, arguments)
    for architecture in (0x40000003, 0x40000028, 0xC000003E, 0xC00000B7):  # i386, arm, x86_64, aarch64
        answer = verdict(program, machine, 57 + 7, architecture=architecture)
        assert (answer == KILL) == (architecture != ARCHITECTURES[machine])


def test_x32_is_refused_and_for_an_unknown_machine_there_is_no_filter():
    assert verdict(confinement.seccomp_filter("x86_64", TIMER), "x86_64", 0x40000000 + 1) == ENOSYS
    with pytest.raises(KeyError):
        confinement.seccomp_filter("vax", TIMER)


@pytest.mark.parametrize(("machine", "header"), [("x86_64", "*/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")])
def test_the_numbers_are_those_of_the_kernels_header(machine, header):
    path = next(Path("/usr/include").glob(header), None)
    if path is None:
        pytest.skip(f"no kernel header /usr/include/{header} here")
    text = path.read_text().replace("__NR3264_", "__NR_")
    known = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", text)}
    if machine == "aarch64":
        known["newfstatat"] = known["fstatat"]
    numbers = {name: both[MACHINES[machine]] for name, both in NUMBERS.items()}
    newer = max(known.values())
    faults = {name: number for name, number in numbers.items() if number != known.get(name)}
    assert {name: number for name, number in faults.items() if name in known or (number or 0) <= newer} == {}
    assert len(faults) < len(numbers) / 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may drop what later programs could regain")
def test_no_capability_is_left_and_none_can_be_regained():
    give_up = "from harness_tasks.sandbox.confinement import give_up_privileges; give_up_privileges(); "
    status = printed_by(give_up + "print(open('/proc/self/status').read())").splitlines()
    assert [line.split()[1] for line in status if line.startswith("Cap")] == ["0" * 16] * 5
    assert "NoNewPrivs:\t1" in status
