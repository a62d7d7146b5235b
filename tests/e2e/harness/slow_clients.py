"""Many slow clients of one kind, as a process of their own: python3 slow_clients.py KIND COUNT PORT KEY

Prints "ready" when all have connected and sent what they send at first. Goes on until its input is closed; clients that the server
has closed by then come back, as an attacker's would."""

import resource
import select
import socket
import sys

# What each kind of client sends at first, and what follows byte by byte.
KINDS = {
    "headers": ("GET /v1/tasks HTTP/1.1\r\nHost: x\r\nX-Slow: ", "a"),
    "body": ("POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
             "Content-Length: 15000\r\n\r\n{{", " "),
    "readers": ("GET /v1/tasks?name=big&limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n", ""),
    "idle": ("", ""),
    "handshakes": ("\x16\x03\x01\x02", ""),
}
ADDRESSES = 8  # 127.0.2.1 and so on: one address alone may not have so many connections
TURN_S = 0.25


class SlowClient:
    def __init__(self, number, port, first):
        self.address, self.port, self.first = (f"127.0.2.{number % ADDRESSES + 1}", 0), port, first
        self.connect()

    def connect(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(30)
        self.socket.bind(self.address)
        self.socket.connect(("127.0.0.1", self.port))
        self.socket.sendall(self.first)
        self.socket.setblocking(False)

    def drip(self, data):
        """Sends a byte; false: the server has closed."""
        try:
            return not data or self.socket.send(data) >= 0
        except BlockingIOError:
            return True
        except OSError:
            return False


def closed(clients):
    """Those of whose connection the server has closed its side. Answers are not read."""
    poll = select.poll()
    by_descriptor = {client.socket.fileno(): client for client in clients}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLRDHUP)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(0)]


def main():
    kind, count, port, key = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    first, more = (text.format(key=key).encode("latin-1") for text in KINDS[kind])
    clients = [SlowClient(number, port, first) for number in range(count)]
    print("ready", flush=True)
    back = 0
    while not select.select([sys.stdin], [], [], TURN_S)[0]:
        silent = [client for client in clients if not client.drip(more)]
        for client in {*silent, *closed(clients)}:
            client.socket.close()
            client.connect()
            back += 1
    print(back, flush=True)


if __name__ == "__main__":
    main()
