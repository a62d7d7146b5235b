"""What is no HTTP, or not quite: raw bytes on the API's socket. Whatever comes, each connection ends or is answered, none with 500,
and the server goes on."""

import concurrent.futures
import os
import random
import re
import socket

import pytest

from server import TIMEOUT_S, until

pytestmark = pytest.mark.text("the front door is a node's own")

HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\n"

PATIENCE_S = None if os.environ.get("BELFRY_TEST_LONG") else 2  # half a request is waited for, 10 s its head and 30 s its body

# (what, bytes, statuses): None stands for a connection that was closed without a word.
CASES = [
    ("all bytes there are", bytes(range(256)) * 4, {400}),
    ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n", {None, 400}),
    ("HTTP/2 without asking", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    ("one word", b"HELLO\r\n\r\n", {None, 400}),
    ("no version", b"GET /health\r\n\r\n", {400}),
    ("a version to come", b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", {505}),
    ("no Host", b"GET /health HTTP/1.1\r\n\r\n", {400}),
    ("two Hosts", HEAD + b"Host: y\r\n\r\n", {400}),
    ("a blank in the URI", b"GET /hea lth HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    ("a header without a colon", HEAD + b"nonsense\r\n\r\n", {400}),
    ("a blank before the colon", HEAD + b"A : b\r\n\r\n", {400}),
    ("a length below zero", POST + b"Content-Length: -5\r\n\r\n", {400}),
    ("a length beyond all", POST + b"Content-Length: 99999999999999999999999\r\n\r\n", {400, 413}),
    ("two lengths", POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", {400}),
    ("a body with no end", POST + b"Transfer-Encoding: gzip\r\n\r\nhello", {400, 501}),
    ("chunks in a wrapping", POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", {400, 501}),
    ("a length and chunks", POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    ("a method nobody knows", b"BREW /health HTTP/1.1\r\nHost: x\r\n\r\n", {405, 501}),
    ("a method without end", b"A" * 50_000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n", {None, 400, 414, 431, 501}),
    ("a URI of 10 KB", b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {414}),
    ("a URI of 100 KB", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {None, 414, 431}),
    ("a header of 20 KB", HEAD + b"A: " + b"b" * 20_000 + b"\r\n\r\n", {431}),
    ("a header of 100 KB", HEAD + b"A: " + b"b" * 100_000 + b"\r\n\r\n", {None, 431}),
    ("20,000 headers", HEAD + b"A: b\r\n" * 20_000 + b"\r\n", {None, 431}),
]


def say(server, data, half=False, patience_s=None):
    """The client's port, and all that came back until the server closed, or had nothing more to say for a second. It must do one
    of these, unless we have less patience than it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=patience_s or TIMEOUT_S) as connection:
        port, got = connection.getsockname()[1], b""
        try:
            connection.sendall(data)
            if half:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                got += chunk
                connection.settimeout(1)
        except socket.timeout:
            assert got or patience_s, "it neither answered nor closed"
        except OSError:
            pass  # it closed while we were still sending
        return port, got


def statuses(got):
    """The statuses of the answers; heads may stand inside of bodies, and bodies may be anything."""
    return [int(s) for s in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)] or [None]


@pytest.fixture
def talkative(make_server):
    return make_server("--log-level", "debug")


@pytest.mark.parametrize("what, data, expected", CASES, ids=[c[0] for c in CASES])
@pytest.mark.shared
def test_what_cannot_be_read_is_refused(server, what, data, expected):
    _, got = say(server, data)
    assert set(statuses(got)) <= expected, got[:300]
    assert len(set(statuses(got))) == 1
    client = server.client()
    assert client.get("/health", auth=False).status == 200
    client.close()


@pytest.mark.shared
def test_a_body_is_never_read_as_the_next_request(server):
    """A proxy in front may take a blank before the colon for nothing, and see one request where we see two."""
    hidden = b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n"
    for lengths in (b"Content-Length : %d\r\n", b"Content-Length\t: %d\r\n", b"Transfer-Encoding: gzip\r\nContent-Length: %d\r\n"):
        _, got = say(server, POST + lengths % len(hidden) + b"\r\n" + hidden)
        assert statuses(got) == [400] and b"ready" not in got, got


def test_who_sends_what_cannot_be_read_is_told_at_debug(talkative):
    for what, data, _ in [c for c in CASES if c[0] in ("all bytes there are", "one word", "a header without a colon", "20,000 headers")]:
        port, _ = say(talkative, data)
        until(lambda: [x for x in talkative.lines if "event=request_unreadable" in x and f"peer=127.0.0.1:{port} " in x],
              why=lambda: f"nothing was told about {what}: {talkative.log()}")
    answered, _ = say(talkative, HEAD + b"\r\n")
    silent = socket.create_connection(("127.0.0.1", talkative.port))
    mute = silent.getsockname()[1]
    silent.close()
    say(talkative, CASES[0][1])  # behind which the others have been seen
    assert not re.search(f"127.0.0.1:({answered}|{mute}) ", talkative.log())
    assert 'why="a header has no colon"' in talkative.log()


def test_who_is_too_slow_is_cut_off_and_told_at_debug(talkative):
    port, got = say(talkative, b"G" * 500)  # a line without an end
    assert got == b""
    until(lambda: f'event=client_too_slow peer=127.0.0.1:{port} at="request line"' in talkative.log(), why=talkative.log)


def test_a_client_of_tls_is_told_at_once(talkative):
    _, got = say(talkative, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500)
    assert got.startswith(b"HTTP/1.1 400 ") and b"use http://" in got


def test_random_bytes_break_nothing(server, receiver, counts):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    good = [HEAD + b"\r\n", POST + b"Content-Length: 2\r\n\r\n{}", POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            b"DELETE /v1/tasks/0192a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b HTTP/1.1\r\nHost: x\r\nIf-Match: \"1\"\r\n\r\n"]

    def spoil(data):
        data = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data))
            kind = chance.randrange(4)
            if kind == 0:
                data[at] = chance.randrange(256)
            elif kind == 1:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 40)))
            elif kind == 2:
                del data[at:at + chance.randrange(1, 10)]
            else:
                data[at:at] = chance.choice([b"\r\n", b"\n", b"\0", b" ", b":", b"\r\n\r\n", b"%00", b"\xff\xfe"])
            data = data or bytearray(b"\n")
        return bytes(data)

    texts = [spoil(chance.choice(good)) for _ in range(400)] + [chance.randbytes(chance.randrange(1, 2000)) for _ in range(100)]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda data: statuses(say(server, data, half=True, patience_s=PATIENCE_S)[1]), texts))
    seen = [s for answer in answers for s in answer]
    counts(f"500 requests that are none (seed {seed}): {len([s for s in seen if s])} answers, {seen.count(None)} closed or left without one")
    assert not {s for s in seen if s and s >= 500 and s not in (501, 505)}, seed
    client = server.client()
    assert re.search(r"^belfry_http_errors_total 0$", client.get("/metrics").body.decode(), re.M), seed
    client.wait_for(client.create(name="still here", **receiver.target("/still"))["id"], "COMPLETED")
    client.close()
    server.stop()
