"""Connections that the server closes right after its response.

brief.py serve PORT	answers each request; closes after it, unless the request is "stay"; says "ready"
brief.py ask ADDRESS PORT COUNT LEAST
			COUNT requests, and so many again until LEAST responses came with a FIN or 40 s
			have passed, each on a connection that the client closes as soon as it has the
			response; then one that stays, with three requests. Prints how many responses came
			with a FIN, how many without, and of the one that stays the longest wait in ms
"""
import socket
import struct
import sys
import time

ETH_IP, TCP, FIN = 0x0800, 6, 1


def serve(port):
    with socket.create_server(("", port), backlog=64) as listener:
        print("ready", flush=True)
        while True:
            connection = listener.accept()[0]
            while connection.recv(100) == b"stay":
                connection.sendall(b"small\n")
            connection.sendall(b"small\n")
            connection.close()


def ask(address, request):
    with socket.create_connection(address, 60) as connection:
        connection.sendall(request)
        assert connection.recv(100) == b"small\n"


def stay(address):
    longest = 0
    with socket.create_connection(address, 60) as connection:
        for _ in range(3):
            began = time.monotonic()
            connection.sendall(b"stay")
            assert connection.recv(100) == b"small\n"
            longest = max(longest, time.monotonic() - began)
    return longest * 1000


def responses(packets, port):
    """Of those that came from the port: with a FIN, without."""
    counts = [0, 0]
    while True:
        try:
            packet, sender = packets.recvfrom(2000)
        except BlockingIOError:
            return counts
        if sender[2] != socket.PACKET_HOST or packet[9] != TCP:
            continue
        tcp = packet[4 * (packet[0] & 15):struct.unpack("!H", packet[2:4])[0]]
        if struct.unpack("!H", tcp[:2])[0] == port and len(tcp) > 4 * (tcp[12] >> 4):
            counts[not tcp[13] & FIN] += 1


def main():
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    address = (sys.argv[2], int(sys.argv[3]))
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_IP)) as packets:
        packets.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
        packets.setblocking(False)
        asked, counts, end = 0, [0, 0], time.monotonic() + 40
        while not asked or counts[0] < int(sys.argv[5]) and time.monotonic() < end:
            for _ in range(int(sys.argv[4])):
                ask(address, b"close")
            asked += int(sys.argv[4])
            counts = [a + b for a, b in zip(counts, responses(packets, address[1]))]
    print("asked=%d fin=%d without=%d stay_ms=%d" % (asked, *counts, stay(address)))


main()
