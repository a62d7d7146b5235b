"""The real server from outside: `belfry serve` as a process, a client that keeps its own record, and a receiver.

The receiver is the oracle of these tests: it logs each call it gets (id, task, attempt, fence, due, received) by its own clock
and answers as it was told. Nothing here reads Belfry's database, and nothing waits for a fixed time: whoever waits, waits for
something to happen, and gives up loudly after TIMEOUT_S.
"""

import collections
import dataclasses
import datetime
import gzip
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import openapi
from conftest import BUILD, RELEASE_BUILD

TIMEOUT_S = 60  # of a wait: nobody waits so long unless something is broken
IDLE_S = 30  # half of the server's api.idle_timeout
POLL_S = 0.02
LISTENS = re.compile(r"listens on https?://(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)")
SANITIZER = re.compile(r"(ERROR|WARNING): \w*Sanitizer|runtime error:")


def now_ms():
    return time.time() * 1000


def to_ms(text):
    """2026-02-10T08:00:00.123Z → milliseconds since 1970"""
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def at(ms):
    """milliseconds since 1970 → 2026-02-10T08:00:00.123Z"""
    whole = datetime.datetime.fromtimestamp(int(ms) // 1000, datetime.timezone.utc)
    return whole.strftime("%Y-%m-%dT%H:%M:%S") + f".{int(ms) % 1000:03d}Z"


def until(what, timeout_s=TIMEOUT_S, why="it did not happen"):
    """Calls what() until it returns something true, which is returned."""
    end = time.monotonic() + timeout_s
    while True:
        got = what()
        if got:
            return got
        if time.monotonic() > end:
            text = why() if callable(why) else why
            raise AssertionError(f"{text} within {timeout_s} s")
        time.sleep(POLL_S)


# ----------------------------------------------------------------------------------------------------------------------
# the server


def spare_sanitizers(servers):
    """Of several that do the same, the first looks for errors of memory; the others are what users run, and start in a third of the time."""
    for server in servers[1:]:
        server.build = RELEASE_BUILD
    return servers


class Server:
    """`belfry serve` on a data directory and a free port; may be started, ended and killed many times."""

    listens = LISTENS

    def __init__(self, data_dir, *arguments, env=None, listen="127.0.0.1:0"):
        self.data_dir = data_dir
        self.arguments = arguments
        self.listen = listen
        self.env = env or {}
        self.build = BUILD
        self.process = None
        self.port = None
        self.nodes = self.processes = [self]  # as of a cluster
        self.lines = collections.deque(maxlen=4000)

    def start(self, env=None, preexec=None):
        """Returns once it listens. If PostgreSQL does not take a connection in time, because the machine has much to do, it starts again."""
        self.launch(env, preexec)
        for _ in range(2):
            if self.heard.wait(TIMEOUT_S) and not self.port and any("failed: timeout expired" in line for line in list(self.lines)[-1:]):
                self.process.wait()
                self.launch(env, preexec)
        return self.listening()

    def launch(self, env=None, preexec=None):
        assert not self.runs(), "it runs already"
        self.heard = threading.Event()
        command = [self.build / "belfry", *self.command(), *self.arguments]
        # The receivers are on loopback, whatever tenants there are.
        environment = {**os.environ, "BELFRY_LOG_FORMAT": "logfmt", "BELFRY_HTTP_ALLOW_LOOPBACK": "true", **self.env, **(env or {})}
        self.port = None
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment,
                                        preexec_fn=preexec)
        self.reader = threading.Thread(target=self._read, args=(self.process.stderr, self.heard), daemon=True)
        self.reader.start()
        return self

    def command(self):
        return ["serve", "--listen", self.listen, "--data-dir", self.data_dir]

    def listening(self):
        assert self.heard.wait(TIMEOUT_S) and self.port, f"the server did not start:\n{self.log()}"
        return self

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def _read(self, pipe, listening):
        for line in pipe:
            text = line.decode("utf-8", "replace").rstrip()
            self.lines.append(text)
            found = self.listens.search(text)
            if found:
                self.port = int(found[1])
                listening.set()
        listening.set()  # it ended, listening or not
        pipe.close()

    def log(self):
        return "\n".join(self.lines)

    @property
    def key(self):
        return (self.data_dir / "admin.key").read_text().strip()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def client(self, check=openapi.check):
        return Client(self, check)

    def turn(self):
        """Who gets the next request."""
        return self

    def signal(self, number):
        self.process.send_signal(number)

    def ended(self, timeout_s=TIMEOUT_S):
        """Waits for the end, whoever brings it, and returns the exit status."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {timeout_s} s:\n{self.log()[-3000:]}") from None
        self.reader.join(TIMEOUT_S)
        assert not SANITIZER.search(self.log()), self.log()
        return code

    def stop(self):
        """SIGTERM: it drains and ends in peace."""
        self.process.send_signal(signal.SIGTERM)
        code = self.ended()
        assert code == 0, f"exit status {code}:\n{self.log()}"

    def kill(self):
        self.process.kill()
        assert self.ended() == -signal.SIGKILL, self.log()

    def close(self):
        """For the end of a test, however it went."""
        if self.runs():
            self.process.kill()
            self.process.wait()


# ----------------------------------------------------------------------------------------------------------------------
# a client


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:600].decode('utf-8', 'replace')}"


class Client:
    """One connection that is kept to each process it asks; for one thread. Goes along when the server comes back on another port.
    Each answer is held to the server's description by `check`."""

    def __init__(self, server, check=openapi.check):
        self.server = server
        self.check = check
        self.connections = {}

    def close(self):
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()

    def request(self, method, path, body=None, key=None, headers=None, raw=None, auth=True, timeout_s=TIMEOUT_S, node=None):
        """body is sent as JSON, raw as it is; key is the Idempotency-Key; node: whom to ask, else whose turn it is."""
        node = node or self.server.turn()
        whom = (node.port, node.process.pid)
        connection = self.connections.get(whom)
        if connection and time.monotonic() - connection.used > IDLE_S:
            connection.close()  # the server is about to close it; it connects anew
        if connection is None:
            connection = self.connections[whom] = http.client.HTTPConnection("127.0.0.1", node.port, timeout=timeout_s)
        elif connection.sock:
            connection.sock.settimeout(timeout_s)
        head = dict(headers or {})
        if auth:
            head.setdefault("Authorization", f"Bearer {self.server.key}")
        if key:
            head["Idempotency-Key"] = key
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
            head.setdefault("Content-Type", "application/json")
        connection.used = time.monotonic()
        try:
            connection.request(method, path, body=data, headers=head)
            response = connection.getresponse()
            is_stream = response.headers.get_content_type() == "text/event-stream"
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, b"" if is_stream else response.read())
        except (OSError, http.client.HTTPException):
            self.connections.pop(whom).close()
            raise
        if response.will_close or is_stream:  # events.py reads streams
            self.connections.pop(whom).close()
        self.check(method, path, answer)
        return answer

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.request("POST", path, body, **more)

    def create(self, **body):
        """Creates a task, which must succeed, and returns it."""
        answer = self.post("/v1/tasks", body)
        assert answer.status == 201, answer
        return answer.json

    def task(self, task_id):
        answer = self.get(f"/v1/tasks/{task_id}")
        assert answer.status == 200, answer
        return answer.json

    def act(self, task_id, action, expect=200, **more):
        answer = self.post(f"/v1/tasks/{task_id}/{action}", **more)
        assert answer.status == expect, answer
        return answer.json if answer.body else None

    def all(self, path, field="tasks"):
        """All pages of a list, by its cursor."""
        found, cursor = [], ""
        while cursor is not None:
            answer = self.get(f"{path}{'&' if '?' in path else '?'}limit=1000" + (f"&cursor={cursor}" if cursor else ""))
            assert answer.status == 200, answer
            found += answer.json[field]
            cursor = answer.json["pagination"]["next_cursor"]
        return found

    def wait_for(self, task_id, *states):
        seen = {}

        def look():
            seen.update(self.task(task_id))
            return seen["status"] in states and dict(seen)

        return until(look, why=lambda: f"the task became none of {states}, it is {seen}")


# ----------------------------------------------------------------------------------------------------------------------
# the receiver


@dataclasses.dataclass
class Call:
    """One call as it came."""

    received_ms: float
    method: str
    path: str
    headers: dict
    body: bytes
    status: int = 0  # what was answered; 0: nothing yet
    answered_ms: float = float("inf")  # when; whoever follows because of it comes later
    arrived_ms: float = None  # when its last byte was in the socket, to some milliseconds; on a busy machine it is written down much later

    @property
    def id(self):
        return self.headers.get("webhook-id")

    @property
    def task(self):
        return self.headers.get("belfry-task-id")

    @property
    def attempt(self):
        return int(self.headers["belfry-attempt"])

    @property
    def fence(self):
        return int(self.headers["belfry-fence"])

    @property
    def scheduled_ms(self):
        return to_ms(self.headers["belfry-scheduled-at"])


@dataclasses.dataclass
class Reply:
    """What to answer. hold: an event to wait for first; takes_s: how long the work behind it takes. drop: close without a word."""

    status: int = 200
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b"ok"
    hold: threading.Event = None
    takes_s: float = 0
    drop: bool = False


def idle_ms(connection):
    """How long ago the kernel got data on this connection: tcpi_last_data_recv of struct tcp_info."""
    return struct.unpack_from("I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 52)[0]


class Receiver:
    """An HTTP server that logs every call and answers 200, or what a path was told to answer."""

    def __init__(self, address="127.0.0.1"):
        self.calls = []
        self.changed = threading.Condition()
        self.replies = {}  # path → replies, of which the last is repeated
        self.sockets = set()
        self.closing = False
        self.listener = socket.create_server((address, 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    def target(self, path="/", **config):
        """The fields of a task that calls here."""
        return {"target_type": "HTTP_CALLBACK", "target_config": {"url": self.url(path), **config}}

    def answer(self, path, *replies):
        with self.changed:
            self.replies[path] = list(replies)

    def to(self, path):
        with self.changed:
            return [c for c in self.calls if c.path == path]

    def reply_to(self, call):
        """To a path that was told nothing."""
        return Reply()

    def wait(self, path, count=1, timeout_s=TIMEOUT_S):
        """Returns the calls to that path, once there are so many."""
        with self.changed:
            enough = self.changed.wait_for(lambda: sum(c.path == path for c in self.calls) >= count, timeout_s)
            found = [c for c in self.calls if c.path == path]
        assert enough, f"{len(found)} of {count} calls to {path} within {timeout_s} s"
        return found

    def close(self):
        self.closing = True
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the acceptor, which must not be left with a number that is another socket's next
        self.acceptor.join(TIMEOUT_S)
        self.listener.close()
        with self.changed:
            for replies in self.replies.values():
                for reply in replies:
                    if reply.hold:
                        reply.hold.set()
            for connection in self.sockets:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _accept(self):
        while not self.closing:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.changed:
                self.sockets.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection, connection.makefile("rb") as stream:
                while self._serve_one(connection, stream):
                    pass
        except (OSError, ValueError):
            pass  # the caller died in the middle: that is what some tests do to it
        with self.changed:
            self.sockets.discard(connection)

    def _serve_one(self, connection, stream):
        line = stream.readline()
        if not line:
            return False
        method, path, _ = line.decode("latin-1").split(" ", 2)
        headers = {}
        while (line := stream.readline().strip()):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", 0))
        body = stream.read(length)
        if len(body) < length:
            return False
        call = Call(now_ms(), method, path, headers, body, arrived_ms=now_ms() - idle_ms(connection))
        with self.changed:
            self.calls.append(call)
            replies = self.replies.get(path) or [self.reply_to(call)]
            reply = replies.pop(0) if len(replies) > 1 else replies[0]
            self.changed.notify_all()
        if reply.hold:
            reply.hold.wait(TIMEOUT_S)
        time.sleep(reply.takes_s)
        if reply.drop:
            return False
        head = "".join(f"{k}: {v}\r\n" for k, v in reply.headers.items())
        text = b"" if method == "HEAD" else reply.body
        call.status, call.answered_ms = reply.status, now_ms()
        connection.sendall(f"HTTP/1.1 {reply.status} x\r\ncontent-length: {len(text)}\r\n{head}\r\n".encode() + text)
        return True
