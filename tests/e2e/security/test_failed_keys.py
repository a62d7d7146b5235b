"""Wrong API keys: counted, logged and limited by address, without harm to those who have a valid one."""

import collections
import re

import pytest

from server import until
from test_front_door import checked, connect, made_up_key


def ask(server, key, source="127.0.0.1", path="/v1/tasks"):
    with connect(server, source) as connection:
        header = f"Authorization: Bearer {key}\r\n" if key else ""
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n".encode())
        got = b""
        while chunk := connection.recv(65536):
            got += chunk
    return int(got[9:12]), got


def failures(client):
    found = re.findall(r'^belfry_api_key_failures_total\{reason="(\w+)"\} (\d+)$', client.get("/metrics").body.decode(), re.M)
    return {reason: int(n) for reason, n in found}


@pytest.mark.standalone("each node counts and limits for itself")
def test_wrong_keys_are_counted_and_limited_by_address(server):
    client = server.client()
    before = failures(client)
    answers = [ask(server, made_up_key(), "127.0.0.77") for _ in range(60)]
    statuses = collections.Counter(status for status, _ in answers)
    assert set(statuses) == {401, 429} and statuses[401] >= 10
    refused = next(got for status, got in answers if status == 429)
    assert b"\r\nRetry-After: 1\r\n" in refused and b"too-many-failed-keys" in refused
    assert ask(server, made_up_key(), "127.0.0.78")[0] == 401  # another address
    assert ask(server, server.key, "127.0.0.77")[0] == 200  # the cache knows this key
    assert ask(server, None, "127.0.0.77")[0] == 401  # no key: counted, never limited
    assert ask(server, None, "127.0.0.77", "/health")[0] == 200
    after = failures(client)
    grown = {reason: after[reason] - before.get(reason, 0) for reason in after}
    assert grown["refused"] == statuses[401] + 1 and grown["limited"] == statuses[429] and grown["missing"] == 1
    line = next(line for line in server.lines if "api_key_refused" in line)
    assert "127.0.0.7" in line
    assert sum("127.0.0.77" in line for line in server.lines if "api_key_refused" in line) <= 2  # one for each reason
    client.close()


def test_a_valid_key_passes_whatever_else_comes_from_its_address(server):
    client = server.client()
    for path in ("/v1/tasks", "/v1/queues"):
        fresh = client.post("/v1/api-keys", {"name": "fresh", "scopes": ["tasks:read", "queues:read"]}).json["key"]
        until(lambda: ask(server, made_up_key(), "127.0.0.79")[0] == 429)
        assert ask(server, fresh, "127.0.0.79", path)[0] == 200  # the server has not seen it; behind a proxy, all clients have one address
        wrong = checked(fresh[:-7] + ("a" if fresh[-7] != "a" else "b"))
        # The id is cached, the secret is wrong. On a slow machine, time for another failure has passed meanwhile.
        statuses = []
        until(lambda: statuses.append(ask(server, wrong, "127.0.0.79", path)[0]) or statuses[-1] == 429)
        assert set(statuses) <= {401, 429}, statuses
    client.close()
