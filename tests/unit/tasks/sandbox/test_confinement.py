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
DANGEROUS = {  # calls that no program may make: their numbers on x86_64 and aarch64
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "sendto": (44, 206),
    "sendmsg": (46, 211), "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "prctl": (157, 167), "seccomp": (317, 277), "setrlimit": (160, 164),
    "open": (2, None), "creat": (85, None), "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None),
    "renameat": (264, 38), "renameat2": (316, 276), "rmdir": (84, None), "mkdir": (83, None), "mkdirat": (258, 34),
    "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, None), "fchownat": (260, 54), "truncate": (76, 45),
    "ftruncate": (77, 46), "fallocate": (285, 47), "mknodat": (259, 33), "utimensat": (280, 88), "setxattr": (188, 5),
    "mount": (165, 40), "umount2": (166, 39), "chroot": (161, 51), "pivot_root": (155, 41), "unshare": (272, 97),
    "setns": (308, 268), "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "memfd_create": (319, 279), "keyctl": (250, 219), "add_key": (248, 217),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "init_module": (175, 105), "reboot": (169, 142),
    "setuid": (105, 146), "capset": (126, 91), "personality": (135, 92), "setsid": (112, 157), "umask": (95, 166),
    "chdir": (80, 49), "fchdir": (81, 50), "dup2": (33, None), "dup3": (292, 24), "rt_sigprocmask": (14, 135),
    "timer_create": (222, 107), "timer_settime": (223, 110), "alarm": (37, None), "shmget": (29, 194),
    "mq_open": (240, 180), "splice": (275, 76), "sendfile": (40, 71), "clone3": (435, 435), "openat2": (437, 437),
    "landlock_create_ruleset": (444, 444), "mlock": (149, 228), "sched_setscheduler": (144, 119),
    "setpriority": (141, 140), "process_madvise": (440, 440), "fsconfig": (431, 431), "sethostname": (170, 161),
}  # fmt: skip

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
    assert not {numbers[column] for numbers in DANGEROUS.values()} & (named - {None})
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
    numbers = {name: both[MACHINES[machine]] for name, both in {**NUMBERS, **DANGEROUS}.items()}
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
