"""The operator's listener: health, metrics and administration, whatever happens to the API."""

import http.client
import re
import time

import pytest

from server import Server
from test_front_door import connect, made_up_key

ROUNDS = 20
LIMIT_S = 0.05


@pytest.fixture
def served(tmp_path):
    server = Server(tmp_path / "data", env={"BELFRY_API_ADMIN_LISTEN": "127.0.0.1:0", "BELFRY_API_CONNECTIONS": "256"}).start()
    yield server
    server.stop()
    server.close()


def operator(server):
    line = next(line for line in server.lines if "for operators on" in line)
    return http.client.HTTPConnection("127.0.0.1", int(re.search(r"for operators on http://127\.0\.0\.1:(\d+)", line)[1]), timeout=20)


def ask(server, connection, path, method="GET", body=None):
    connection.request(method, path, body, {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def assert_answers_at_once(server):
    """The median: a busy machine may delay any single answer."""
    connection = operator(server)
    for path in ("/health", "/metrics", "/v1/scheduler/status"):
        took = []
        for _ in range(ROUNDS):
            start = time.monotonic()
            assert ask(server, connection, path)[0] == 200
            took.append(time.monotonic() - start)
        assert sorted(took)[ROUNDS // 2] <= LIMIT_S, (path, took)
    connection.close()


def test_the_command_status_works_there(served, belfry):
    connection = operator(served)
    done = belfry("status", env={"BELFRY_SERVER": f"http://127.0.0.1:{connection.port}", "BELFRY_KEY": served.key})
    assert done.code == 0 and "Running 0 of" in done.out and done.err == "", done


def test_it_serves_operators_and_nobody_else(served):
    connection = operator(served)
    assert ask(served, connection, "/ready")[0] == 200
    assert ask(served, connection, "/v1/api-keys")[0] == 200
    assert ask(served, connection, "/v1/api-keys", "POST", '{"name": "k", "scopes": ["tasks:read"]}')[0] == 201
    status, body = ask(served, connection, "/v1/tasks")
    assert status == 404 and b"api.listen" in body
    assert ask(served, connection, "/ui/")[0] == 404
    connection.request("GET", "/metrics")
    refused = connection.getresponse()
    assert refused.status == 401 and refused.read()
    client = served.client()
    assert client.get("/health").status == client.get("/metrics").status == 200  # the API has them too
    client.close()


def hold_connections(server):
    return [connect(server) for _ in range(300)]


def send_bodies_of_strangers(server):
    held = [connect(server) for _ in range(40)]
    for connection in held:
        connection.sendall(f"POST /v1/tasks/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made_up_key()}\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n".encode())
    return held


def read_slowly(server):
    client = server.client()
    batch = [{"target_type": "NOOP", "delay": "9h", "name": "big", "payload": "x" * 500_000} for _ in range(20)]
    assert client.post("/v1/tasks/batch", batch).status == 201
    client.close()
    held = [connect(server, receive_buffer=4096) for _ in range(12)]
    for connection in held:
        connection.sendall(f"GET /v1/tasks?name=big&limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n\r\n".encode())
    return held


def read_much_of_the_store(server):
    """Hundreds of reads wait for the two pool threads of the API."""
    client = server.client()
    for _ in range(4):
        assert client.post("/v1/tasks/batch", [{"target_type": "NOOP", "delay": "9h", "payload": "x" * 1000}] * 1000).status == 201
    client.close()
    held = [connect(server, receive_buffer=4096) for _ in range(100)]
    for connection in held:
        connection.sendall(f"GET /v1/tasks?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n\r\n".encode())
    return held


@pytest.mark.parametrize("load", [hold_connections, send_bodies_of_strangers, read_slowly, read_much_of_the_store])
@pytest.mark.heavy
def test_no_load_on_the_api_delays_it(served, load):
    held = load(served)
    assert_answers_at_once(served)
    for connection in held:
        connection.close()
