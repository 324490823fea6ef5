#!/usr/bin/python3
"""Sets the mode of a team device, as `teamnl DEVICE setoption mode MODE`, before it has a port.

    team_mode.py DEVICE MODE
"""
import errno
import os
import socket
import struct
import sys

NLM_F_REQUEST_ACK, GENL_ID_CTRL, NLMSG_ERROR = 5, 16, 2
CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 3, 1, 2
TEAM_CMD_OPTIONS_SET, NLA_STRING = 1, 5


def attr(kind, data):
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def ask(sock, family, command, attrs):
    """The attributes of the answer, by kind."""
    body = struct.pack("BBH", command, 1, 0) + attrs
    sock.send(struct.pack("IHHII", 16 + len(body), family, NLM_F_REQUEST_ACK, 1, 0) + body)
    answer = sock.recv(65536)
    if struct.unpack_from("H", answer, 4)[0] == NLMSG_ERROR:
        error = -struct.unpack_from("i", answer, 16)[0]
        if error not in (0, errno.ESRCH):  # ESRCH: done, but no process receives the event
            raise OSError(error, os.strerror(error))
        return {}
    found, at = {}, 20
    while at < struct.unpack_from("I", answer)[0]:
        length, kind = struct.unpack_from("HH", answer, at)
        found[kind] = answer[at + 4 : at + length]
        at += length + 3 & ~3
    sock.recv(65536)  # its acknowledgement
    return found


device, mode = sys.argv[1], sys.argv[2]
genl = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
genl.bind((0, 0))
reply = ask(genl, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, attr(CTRL_ATTR_FAMILY_NAME, b"team\0"))
option = attr(1, b"mode\0") + attr(3, bytes([NLA_STRING])) + attr(4, mode.encode() + b"\0")
index = struct.pack("I", socket.if_nametoindex(device))
ask(
    genl,
    struct.unpack("H", reply[CTRL_ATTR_FAMILY_ID])[0],
    TEAM_CMD_OPTIONS_SET,
    attr(1, index) + attr(0x8002, attr(0x8001, option)),
)
