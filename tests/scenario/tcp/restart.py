"""A server that closes first, and clients that reconnect, with few ports.

restart.py serve PORT			one byte for each connection, then it is closed
restart.py connect ADDRESS PORT N	N connections, one after the other; prints how many
					segments were retransmitted
"""
import socket
import struct
import sys

TOTAL_RETRANS = 100  # its place in struct tcp_info


def serve(port):
    listener = socket.socket()
    listener.bind(("", port))
    listener.listen(16)
    while True:
        connection, _ = listener.accept()
        connection.send(b".")
        connection.close()


def connect(address, port, n):
    again = 0
    for _ in range(n):
        with socket.create_connection((address, port)) as connection:
            while connection.recv(16):
                pass
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            again += struct.unpack_from("I", info, TOTAL_RETRANS)[0]
    print(again)


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    connect(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
