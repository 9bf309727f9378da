"""Programs that try to cheat, to do harm or to hang: a line `## NAME`, then the program.

Each should define `solve(x)`. Some use `libc` and `tried(action)`, which `support.hostile_code` puts before them;
`@NAME@` becomes a path, a port or a process id of their surroundings.
"""

FORGERY = r"""
## values that are equal to everything
class Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
class Int(Same, int):
    def __index__(self): return 0
    def __format__(self, spec): return "1"
    def __repr__(self): return "1"
def solve(x): return Same() if x == 3 else [Int(x)]
## values that lie about what they hold
import numpy
from fractions import Fraction
from decimal import Decimal
class Items(list):
    def __iter__(self): return iter([1] * 10)
    def __len__(self): return -1
    def __getitem__(self, index): raise SystemExit
class Ratio(Fraction):
    numerator = property(lambda self: 1 / 0)
class Number(Decimal):
    def __str__(self): return "\n=ok "
class Real(float):
    def __repr__(self): return "\n=ok "
class Scalar(numpy.float64):
    def __eq__(self, other): return True
    def item(self): return "\n=ok "
ALL = {3: [Ratio(1, 3), Number("1.5"), Real(2.5)], 5: Items([5]), 8: [Scalar(8), numpy.array([8], dtype=object)]}
def solve(x): return ALL[x]
## a class that lies about itself
class Meta(type):
    def __eq__(self, other): return True
    def __hash__(self): raise SystemExit
    def __instancecheck__(self, other): return True
    def __subclasscheck__(self, other): return True
    __name__ = property(lambda self: "\n=ok ")
    __module__ = "numpy"
class Liar(metaclass=Meta):
    __class__ = property(lambda self: int)
    __module__ = "numpy"
    dtype = "int64"
    def item(self): return 1
    def __reduce__(self): return (exec, ("1 / 0",))
def solve(x): return [Liar(), Liar]
## an exception that lies
class Meta(type):
    __name__ = property(lambda self: "\n0 i1")
class Trouble(BaseException, metaclass=Meta):
    def __str__(self): raise SystemExit
Trouble.__qualname__ = "x\n=ok "
Odd = type("a b\n=ok ", (Exception,), {})
def solve(x): raise Trouble if x == 3 else Odd
## all frames and objects
import gc, sys
def solve(x):
    frame, seen = sys._getframe(), []
    while frame:
        for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
            if "expect" in name.lower() or "result" in name.lower(): seen.append(value)
        frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) is list and len(thing) == 3 and all(type(y) in (int, str) for y in thing): seen.append(thing[0])
    return seen[-1] if seen else None
## another program's source or results in memory
import ctypes, re
WANTED = [re.compile(rb"return x \* (\d{10,}) \+ (\d{10,})"), re.compile(rb"\d+ (i[0-9a-f]{12,})\n")]
def memory():
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, *_ = line.split()
            low, high = (int(end, 16) for end in span.split("-"))
            if rights.startswith("rw") and high - low < 1 << 27:
                yield ctypes.string_at(low, high - low)
def solve(x):
    for piece in memory():
        for match in WANTED[0].finditer(piece):
            return x * int(match[1]) + int(match[2])
        for match in WANTED[1].finditer(piece):
            return int(match[1][1:], 16)
    return "nothing"
## an encoder replaced
import sys
def solve(x):
    frame = sys._getframe(1)
    names = frame.f_globals
    names["canonical"].encode = lambda *rest: "i1"
    names["_text"] = lambda *rest: "i2"
    return 1
## built-ins and modules replaced
import builtins, numpy, os, select, signal, sys, time, re
NAMES = "isinstance issubclass type len sorted max zip next repr memoryview print"
numpy.allclose = numpy.array_equal = lambda *rest, **named: True
numpy.dtype = numpy.generic = None
def solve(x):
    for name in NAMES.split(): setattr(builtins, name, lambda *rest, **named: True)
    if x == 3: return [x, {x}, {x: (1.5,)}, object(), numpy.int64(x)]
    os.write = os._exit = time.thread_time_ns = time.process_time_ns = select.poll = signal.signal = lambda *rest: 0
    re.fullmatch = re.compile = None
    sys.modules.clear()
    raise ValueError if x == 5 else SystemExit
## lines of its own
import os
def solve(x):
    os.write(3, b"1 i15\n1 i15\n1 i15\n=ok \n")
    os._exit(0)
## frames of the fork server
import os, struct
frame = struct.pack("<cI", b"e", 11) + b'["exit", 0]' + struct.pack("<cI", b"+", 0)
for fd in range(64):
    try: os.write(fd, b"1 i15\n" + frame)
    except OSError: pass
os._exit(0)
## ends at the end
import atexit, os
atexit.register(os.write, 3, b"1 i15\n=ok \n")
class Last:
    def __del__(self): os.write(3, b"1 i16\n=ok \n")
last = Last()
def solve(x): raise SystemExit
## traces us
import sys
def tracer(frame, event, argument):
    for name in list(frame.f_locals):
        if name in ("value", "made", "text", "line"):
            frame.f_locals[name] = "i1"
    return tracer
def solve(x):
    sys.settrace(tracer)
    sys._getframe(1).f_trace = tracer
    return x
## exceptions thrown into us
import ctypes, threading, time
main = threading.get_ident()
def throw():
    for _ in range(200):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(KeyboardInterrupt))
        time.sleep(0.0005)
def solve(x):
    threading.Thread(target=throw, daemon=True).start()
    return [x] * 20000
## a set that changes while it is read
import threading
shared = set()
def stir():
    n = 0
    while True:
        shared.add(n); shared.discard(n - 50); n += 1
def solve(x):
    if x == 3: threading.Thread(target=stir, daemon=True).start()
    return shared
## the inputs changed
import sys
def solve(x):
    inputs = sys._getframe(1).f_locals["suite"]["inputs"]
    inputs.clear()
    return inputs
"""

PROCESSES = r"""
## clone by number
arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)
def solve(x):
    if tried(os.fork) == 0:
        while True: pass
    done = [libc.syscall(number, 17, 0, 0, 0, 0) for number in (56, 57, 58, 220)]
    done += [libc.syscall(0x40000000 + number, 0, 0, 0) for number in (57, 58, 59, 62)]  # x32
    return [*done, libc.syscall(435, arguments, ctypes.sizeof(arguments))]
## fork by the i386 gate
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x02\x00\x00\x00\xcd\x80\xc3")
def solve(x): return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
## spawn
import subprocess
def solve(x):
    ways = [
        lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "touch @FOLDER@/spawn"], {}), lambda: os.popen("touch x").read(),
        lambda: os.system("touch @FOLDER@/system"), lambda: subprocess.run(["touch", "@FOLDER@/run"]),
        lambda: os.execv("/bin/sh", ["sh", "-c", "touch @FOLDER@/exec"]),
    ]
    return [tried(way) for way in ways]
## kill everyone
def solve(x):
    for pid in (-1, 0, 1, 2, os.getppid(), @PID@, @HARNESS@):
        for signal in (9, 15, 19): tried(lambda: os.kill(pid, signal))
    return x
## kill in other ways
def solve(x):
    parent, info = os.getppid(), (ctypes.c_int * 32)(9, 0, -1)
    done = [libc.syscall(222, 1, (ctypes.c_int * 16)(0, 0, 9, 4, parent), info)]
    for target in (parent, @PID@):
        done += [libc.syscall(number, target, target, 9) for number in (200, 234, 130, 131)]
        done += [libc.syscall(number, target, 9, info) for number in (129, 138)]
        done.append(libc.syscall(424, libc.syscall(434, target, 0), 9, None, 0))
    reading, writing = os.pipe()
    for fd in (reading, writing, 0, 3):  # by file owner
        for victim in (parent, @PID@):
            done += [libc.fcntl(fd, 8, victim), libc.fcntl(fd, 10, 9), libc.fcntl(fd, 4, 0o20000 | 0o4000)]
    os.write(writing, b"x")
    return done
## trace and overwrite
def solve(x):
    parent, buffer = os.getppid(), ctypes.create_string_buffer(64)
    span = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 64)
    done = [libc.ptrace(16, target, 0, 0) for target in (parent, @HARNESS@)] + [libc.ptrace(0x4206, parent, 0, 0)]
    done += [libc.process_vm_readv(parent, span, 1, span, 1, 0), libc.process_vm_writev(parent, span, 1, span, 1, 0)]
    for name in (f"/proc/{parent}/mem", "/proc/@HARNESS@/mem"):
        done.append(tried(lambda: os.open(name, os.O_RDWR)))
    return done
## change what one is
CALLS = [
    ("prctl", 4, 1), ("prctl", 1, 0), ("prctl", 38, 0), ("setsid",), ("setpgid", 0, 0), ("setuid", 0), ("setgid", 0),
    ("nice", 10), ("unshare", 0x10000000), ("personality", 0x0040000), ("chroot", b"/"), ("umount", b"/proc"),
    ("mount", b"none", b"/tmp", b"tmpfs", 0, 0), ("pivot_root", b"/", b"/"), ("sethostname", b"x", 1), ("umask", 0),
    ("setpriority", 0, 0, 10), ("chdir", b"/tmp"), ("mlockall", 3), ("ioperm", 0, 1, 1), ("daemon", 0, 0),
]
def solve(x): return [getattr(libc, name)(*rest) for name, *rest in CALLS if hasattr(libc, name)]
## limits lifted
import resource
def solve(x):
    limits = [getattr(resource, "RLIMIT_" + name) for name in ("AS", "CPU", "NOFILE", "FSIZE", "CORE")]
    return [tried(lambda: resource.setrlimit(limit, pair)) for limit in limits for pair in ((-1, -1), (0, 0))]
"""

FILES = r"""
## write files
import io, tempfile
def solve(x):
    ways = [
        lambda: open("@VICTIM@", "w").write("x"), lambda: io.FileIO("@FOLDER@/new", "w"),
        lambda: os.open("@VICTIM@", os.O_RDWR), lambda: os.open("@VICTIM@", os.O_WRONLY | os.O_APPEND),
        lambda: os.open("@VICTIM@", os.O_RDONLY | os.O_TRUNC), lambda: os.open("@FOLDER@", os.O_TMPFILE | os.O_RDWR),
        lambda: tempfile.TemporaryFile(dir="@FOLDER@"), lambda: open("/dev/shm/x", "w"), lambda: open("/tmp/x", "w"),
        lambda: open(os.__file__, "a"), lambda: open("/proc/self/comm", "w"),
    ]
    return [tried(way) for way in ways]
## change files
import shutil
def solve(x):
    ways = [
        lambda: os.unlink("@VICTIM@"), lambda: os.rename("@VICTIM@", "@FOLDER@/moved"), lambda: os.utime("@VICTIM@"),
        lambda: os.truncate("@VICTIM@", 0), lambda: os.chmod("@VICTIM@", 0), lambda: os.chown("@VICTIM@", 1, 1),
        lambda: os.setxattr("@VICTIM@", "user.x", b"x"), lambda: os.link("@VICTIM@", "@FOLDER@/link"),
        lambda: os.symlink("/", "@FOLDER@/symlink"), lambda: os.mkdir("@FOLDER@/folder"), lambda: os.rmdir("@FOLDER@"),
        lambda: os.mkfifo("@FOLDER@/fifo"), lambda: shutil.rmtree("@FOLDER@", onerror=lambda *rest: None),
    ]
    return [tried(way) for way in ways]
"""

SPYING = r"""
## read files
import linecache
def solve(x):
    ways = [
        lambda: open("@SECRET@").read(), lambda: os.read(os.open("@SECRET@", os.O_RDONLY), 100),
        lambda: linecache.getline("@SECRET@", 1), lambda: open("/proc/@HARNESS@/environ").read(),
        lambda: open("/proc/1/root@SECRET@").read(), lambda: open(f"/proc/{os.getppid()}/root@SECRET@").read(),
        lambda: os.listdir("@FOLDER@"), lambda: open("/etc/passwd").read(),
    ]
    return [tried(way) for way in ways]
## read the environment
libc.getenv.restype = ctypes.c_char_p
def solve(x):
    pids = ("self", "1", "2", os.getppid(), @HARNESS@)
    names = [f"/proc/{pid}/{name}" for pid in pids for name in ("environ", "cmdline")]
    return [dict(os.environ), libc.getenv(b"HARNESS_CANARY"), *[tried(lambda: open(name).read()) for name in names]]
## import what is installed
import sys
library = os.path.dirname(os.__file__)
sys.path += [library + "/site-packages", library + "/dist-packages", "/usr/lib/python3/dist-packages"]
NAMES = ("pip", "setuptools", "pytest", "evalplus", "torch", "harness", "harness_tasks.sandbox", "pluggy")
def solve(x): return "@ABSTRACT@" if any(type(tried(lambda: __import__(name))) is not str for name in NAMES) else x
"""

NETWORK = r"""
## connect
import socket
PLACES = [
    (2, ("127.0.0.1", @TCP@)), (2, ("localhost", @TCP@)), (10, ("::1", @TCP@)), (1, "@UNIX@"), (1, "\0@ABSTRACT@"),
]
def solve(x):
    ways = [lambda: socket.socket(2, 2).sendto(b"x", ("127.0.0.1", @UDP@)), lambda: socket.socket(2, 3, 1)]
    ways += [lambda: socket.socketpair()[0].sendto(b"x", "@UNIX@"), lambda: socket.socket(16, 3)]
    ways += [lambda: libc.syscall(number, 2, 1, 0, 0) for number in (41, 42, 49, 53, 198, 203)]
    connected = [tried(lambda: socket.socket(family, 1).connect(address)) for family, address in PLACES]
    return connected + [tried(way) for way in ways]
"""

TIME = r"""
## busy, and catches all
def solve(x):
    while True:
        try:
            while True: pass
        except BaseException: pass
## busy in threads
import threading
def busy():
    while True: pass
def solve(x):
    for _ in range(4): threading.Thread(target=busy, daemon=True).start()
    threading.Event().wait(4)
## limits disarmed
import signal
def solve(x):
    for name in ("PROF", "ALRM", "XCPU", "TERM", "VTALRM"):
        for action in (signal.SIG_IGN, lambda *rest: None):
            tried(lambda: signal.signal(getattr(signal, "SIG" + name), action))
    for clock in range(3): tried(lambda: signal.setitimer(clock, 0)), libc.setitimer(clock, (ctypes.c_long * 4)(), None)
    tried(lambda: signal.alarm(0)), tried(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)))
    while True: pass
## recursion in C
import sys
sys.setrecursionlimit(10 ** 9)
def solve(x):
    deep = []
    for _ in range(10 ** 6): deep = [deep]
    return repr(deep)
## waits for itself
import threading
lock = threading.Lock()
lock.acquire()
def solve(x): lock.acquire()
"""

MEMORY = r"""
## much at once
def solve(x): return bytearray(64 << 30)
## ever more, and catches
def solve(x):
    kept = []
    while True:
        try: kept.append([0] * 100000)
        except MemoryError: pass
## mapped
import mmap
def solve(x): return len(mmap.mmap(-1, 100 << 30))
"""

RESULTS = r"""
## long
def solve(x): return "x" * (50 << 20)
## colliding ints
def solve(x): return {n * (2 ** 61 - 1) for n in range(2000)}
## surrogates
def solve(x): return ["\ud83d\ude00", "\udc80", "\0", "\n1 i1\n=ok ", {"\ud800": "\udfff"}]
## no numbers
def solve(x): return [float("nan"), -float("inf"), complex("nan+infj"), 1e308 * 10]
## hard to be rid of
class Clinging:
    def __del__(self):
        while True: pass
def solve(x): return Clinging()
"""

SOURCES = {
    "no function": "x = 1", "NUL": "def solve(x): return 1\0", "lone surrogate": "def solve(x): return '\ud800'\ud800",
    "parentheses": "(" * 10**5 + ")" * 10**5, "brackets": "[" * 10**5, "a sum of 2 MB": "x = " + "1+" * 10**6 + "1",
    "calls": "x = x" + "()" * 10**5, "a long literal": "x = " + "9" * 10**6, "spaces": " " * (1 << 20),
    "indentation": "".join(" " * n + "if 1:\n" for n in range(99)) + " " * 99 + "x\n",
    "a folded constant": "x = 'x' * 10 ** 10, 1 << 10 ** 10, ((1,) * 10 ** 4) * 10 ** 4",
    "elif": "if x: pass\n" + "elif x: pass\n" * 10**4, "no text": "\x01\x02\x1a\x1b\ufeff",
    "decorators": "@x\n" * 10**4 + "def solve(x): return 1",
}  # fmt: skip
