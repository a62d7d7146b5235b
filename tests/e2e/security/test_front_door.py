"""Who can keep others out of the API, or let it read one request as two: strangers, idle connections, slow readers, unclear framing."""

import json
import random
import re
import resource
import socket

import pytest

import framing
from server import TIMEOUT_S, until

pytestmark = pytest.mark.text("the front door is a node's own")

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MASK = (1 << 64) - 1


def siphash(k0, k1, data):
    """SipHash-2-4: the checksum of a key is public, so anybody can make up keys that look right."""
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def turn(x, bits):
        return ((x << bits) | (x >> (64 - bits))) & MASK

    def rounds(n):
        for _ in range(n):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = turn(v[1], 13) ^ v[0]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = turn(v[1], 17) ^ v[2]
            v[2] = turn(v[2], 32)

    whole = len(data) - len(data) % 8
    words = [int.from_bytes(data[i:i + 8], "little") for i in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def checked(head):
    h, check = siphash(0x42656C6672792076, 0x312E302073746162, head.encode()), ""
    for _ in range(6):
        check += BASE62[h % 62]
        h //= 62
    return head + check


def made_up_key():
    return checked("bf_" + "".join(random.choice(BASE62) for _ in range(40)))


def connect(server, source="127.0.0.1", receive_buffer=None):
    connection = socket.socket()
    connection.settimeout(TIMEOUT_S)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.bind((source, 0))
    connection.connect(("127.0.0.1", server.port))
    return connection


def exchange(server, data):
    """All that comes until the server closes, or is silent for a second; and whether it closed."""
    with connect(server) as connection:
        connection.sendall(data)
        got = b""
        try:
            while chunk := connection.recv(65536):
                got += chunk
                connection.settimeout(1)
        except socket.timeout:
            return got, False
        except ConnectionResetError:
            pass
        return got, True


def gauge(client, name):
    return float(re.search(rf"^{name} (\S+)$", client.get("/metrics").body.decode(), re.M)[1])


def test_strangers_cannot_use_up_the_room_for_bodies(server):
    assert checked(server.key[:-6]) == server.key
    client = server.client()
    strangers = []
    for i in range(40):
        connection = connect(server, f"127.0.1.{i + 1}")  # one address may send 10 wrong keys a second (test_failed_keys.py)
        connection.sendall(f"POST /v1/tasks/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made_up_key()}\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n".encode())
        strangers.append(connection)
    client.get("/ready", auth=False)  # behind which the heads above have been read
    client.create(target_type="NOOP", delay="1h")
    strangers[0].sendall(b"0\r\n\r\n")
    assert strangers[0].recv(100).startswith(b"HTTP/1.1 401 ")
    for connection in strangers:
        connection.close()
    client.close()


def test_idle_connections_without_a_key_make_room(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 6000:
        pytest.skip("needs 6,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    client = server.client()
    client.get("/v1/tasks")
    held = []
    for host in range(2, 6):
        for _ in range(1024):
            held.append(connect(server, f"127.0.0.{host}"))
            held[-1].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    with connect(server, "127.0.0.9") as other:
        other.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
    assert client.get("/v1/tasks").status == 200  # on its connection, which has a key
    assert gauge(client, "belfry_http_connections") <= 4096
    for connection in held:
        connection.close()
    client.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.standalone("each node has room of its own, and readers would be spread over the nodes")
def test_slow_readers_hold_a_quarter_of_the_room_for_answers(server):
    client = server.client()
    batch = [{"target_type": "NOOP", "delay": "9h", "name": "big", "payload": "x" * 1_000_000} for _ in range(15)]
    assert client.post("/v1/tasks/batch", batch).status == 201
    readers = []
    for _ in range(8):
        reader = connect(server, receive_buffer=4096)
        reader.sendall(f"GET /v1/tasks?name=big&limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n\r\n".encode())
        readers.append(reader)
    statuses = [reader.recv(12)[9:12] for reader in readers]
    assert statuses.count(b"200") == 4 and statuses.count(b"503") == 4
    assert 60_000_000 <= gauge(client, "belfry_http_answer_bytes") <= 64 << 20
    for reader in readers:
        reader.close()
    until(lambda: gauge(client, "belfry_http_answer_bytes") == 0)
    client.post("/v1/tasks/bulk", {"action": "delete", "filter": {"name": "big"}})
    client.close()


@pytest.mark.parametrize("what", framing.NAMES)
@pytest.mark.shared
def test_unclear_framing_ends_the_connection(server, what):
    client = server.client()
    got, closed = exchange(server, dict(framing.cases(framing.hidden_request(server.key, "hidden"), server.key))[what])
    heads = re.findall(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\nDate: ", got)
    too_long = what in ("a length above 64 bits", "a length of 40 digits")
    assert closed and len(heads) == 1 and heads[0] in ([b"413"] if too_long else [b"400", b"501", b"505"]), got[:400]
    assert client.get("/v1/queues/hidden").status == 404
    client.close()
    head, body = got.split(b"\r\n\r\n", 1)
    assert b"Connection: close" in head and b"application/problem+json" in head
    assert json.loads(body)["status"] == int(heads[0])
