"""System calls that no program may make, and calls that are allowed with some arguments only."""

from __future__ import annotations

import os

DANGEROUS = {  # numbers on x86_64 and aarch64
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
CONDITIONAL = [
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
