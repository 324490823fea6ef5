# SPDX-License-Identifier: BSD-2-Clause
"""Pages and recorders that are not as readers expect: other_test.sh.

    other.py version PID NUMBER		the process's page says that it is of this version, and its
				recorder, too; prints the versions it had
    other.py scribble PID SEED		writes over both, all but what readers check first
    other.py pretend DIR KIND		a process whose page is of this KIND: see KINDS
"""
import ctypes
import fcntl
import os
import random
import signal
import struct
import sys

VERSION_AT = 8  # bytes, in a page and in a recorder: after the magic number
HEAD = 48  # bytes, up to made_at: what readers compare with what they know
F_ADD_SEALS, SHRINK, GROW = 1033, 2, 4

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p


def page_of(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:vmastat "):
                return os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)
        except FileNotFoundError:
            pass
    raise SystemExit("it has no page")


def recorder_of(pid):
    """Its System V segment, as memory."""
    with open("/proc/sysvipc/shm") as shm:
        next(shm)
        for line in shm:
            _, shmid, _, size, cpid = map(int, line.split()[:5])
            if cpid == pid:
                at = libc.shmat(shmid, None, 0)
                return (ctypes.c_char * size).from_address(at)
    raise SystemExit("it has no recorder")


def version(pid, number):
    fd, recorder = page_of(pid), recorder_of(pid)
    was = struct.unpack("I", os.pread(fd, 4, VERSION_AT))[0]
    print(was, struct.unpack_from("I", recorder, VERSION_AT)[0])
    os.pwrite(fd, struct.pack("I", number), VERSION_AT)
    struct.pack_into("I", recorder, VERSION_AT, number)


def scribble(pid, seed):
    rng = random.Random(seed)
    fd, recorder = page_of(pid), recorder_of(pid)
    size = os.fstat(fd).st_size
    for _ in range(200):
        data = rng.choice((b"\xff" * 64, b"\x00" * 8, b"\x7f" * 200, rng.randbytes(32)))
        os.pwrite(fd, data, rng.randrange(HEAD, size - len(data)))
        at = rng.randrange(HEAD, len(recorder) - len(data))
        recorder[at : at + len(data)] = data


def sealed(size, seals):
    fd = os.memfd_create("vmastat", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def random_page():
    fd = sealed(1 << 16, 0)
    os.pwrite(fd, random.randbytes(1 << 16), 0)
    fcntl.fcntl(fd, F_ADD_SEALS, SHRINK | GROW)
    return fd


def a_file(directory):
    path = os.path.join(directory, "a_file")
    return os.open(path, os.O_RDWR | os.O_CREAT)


def a_pipe(directory):
    return os.pipe()[0]


KINDS = {
    "empty": lambda d: sealed(0, SHRINK | GROW),
    "short": lambda d: sealed(100, SHRINK | GROW),
    "zeros": lambda d: sealed(1 << 16, SHRINK | GROW),
    "huge": lambda d: sealed(1 << 32, SHRINK | GROW),
    "unsealed": lambda d: sealed(1 << 16, GROW),
    "random": lambda d: random_page(),
    "file": a_file,
    "pipe": a_pipe,
}


def pretend(directory, kind):
    fd = KINDS[kind](directory)
    with open(f"{directory}/vmastat.{os.getpid()}", "w") as place:
        place.write(
            "libvma-statistics pid=%u namespace=%u fd=%u\n" % (os.getpid(), os.stat("/proc/self/ns/pid").st_ino, fd)
        )
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    globals()[what](*(int(word) if word.isdigit() else word for word in rest))
