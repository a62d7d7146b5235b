"""Ports for servers of tests. The kernel gives none of them to an outgoing connection, as it may do with one that was free a moment ago."""

import pathlib
import random
import socket

LOWEST = 20000
RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")  # of outgoing connections


def free_ports(count):
    """Different ones. Another test may choose the same at the same moment, once in thousands of times."""
    highest = max(int(RANGE.read_text().split()[0]), LOWEST + 1000)
    found = []
    while len(found) < count:
        port = random.SystemRandom().randrange(LOWEST, highest)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was left a minute ago will do
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def free_port():
    return free_ports(1)[0]
