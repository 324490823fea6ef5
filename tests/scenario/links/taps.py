#!/usr/bin/python3
"""A link between two tap or tun devices, each in a separate network namespace.

    taps.py MODE DEVICE NAMESPACE NAMESPACE     MODE: tap, tun; says "ready"
"""
import ctypes
import fcntl
import os
import select
import struct
import sys

TUNSETIFF, IFF_TUN, IFF_TAP, IFF_NO_PI = 0x400454CA, 1, 2, 0x1000
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def opened(mode, device, namespace):
    with open(f"/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    fd = os.open("/dev/net/tun", os.O_RDWR)
    flags = (IFF_TAP if mode == "tap" else IFF_TUN) | IFF_NO_PI
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), flags))
    return fd


one, other = (opened(sys.argv[1], sys.argv[2], ns) for ns in sys.argv[3:5])
print("ready", flush=True)
while True:
    for fd in select.select([one, other], [], [])[0]:
        try:
            os.write(other if fd == one else one, os.read(fd, 65536))
        except OSError:  # the far one is down
            pass
