"""Thousands of slow clients of each kind beside one that is not: how long it waits for its answers, and what the slow ones cost in memory."""

import http.client
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

import slow_clients
from test_tls_api import files, made, trusting  # fixtures

pytestmark = [pytest.mark.heavy, pytest.mark.standalone("the front door is a node's own")]
__all__ = ["files", "made"]

LONG = bool(os.environ.get("BELFRY_TEST_LONG"))
COUNT = 2000 if LONG else 100
SECONDS = 15 if LONG else 2  # for how long the healthy client asks; 15 s: longer than every time limit of a slow one but that of bodies
LATENCY_MS, MEMORY_MB = 50, 256
# Of the 200 answers of the short run, the second slowest is a matter of what else the machine does: here it is the tenth slowest.
PERCENT = 99 if LONG else 95


class Healthy:
    """Asks a hundred times a second: a create and a read on a connection that is kept, and each tenth time on a new one."""

    def __init__(self, server, context):
        self.server, self.context = server, context
        self.kept = self.connect()

    def connect(self):
        if self.context:
            return http.client.HTTPSConnection("localhost", self.server.port, context=self.context, timeout=30)
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)

    def ask(self, connection, body):
        headers = {"Authorization": f"Bearer {self.server.key}", "Content-Type": "application/json"}
        connection.request("POST" if body else "GET", "/v1/tasks" if body else "/v1/tasks?limit=1", body=body, headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (200, 201)

    def slow_ms(self, seconds):
        taken, end, number = [], time.monotonic() + seconds, 0
        task = json.dumps({"target_type": "NOOP", "delay": "9h"}).encode()
        while time.monotonic() < end:
            begin = time.monotonic()
            connection = self.connect() if number % 10 == 0 else self.kept
            self.ask(connection, task if number % 2 else None)
            taken.append((time.monotonic() - begin) * 1000)
            if connection is not self.kept:
                connection.close()
            number += 1
            time.sleep(max(0.0, begin + 0.01 - time.monotonic()))
        return sorted(taken)[len(taken) * PERCENT // 100]


def memory_mb(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) / 1024


def key_of_another_tenant(server):
    """The slow clients are of a tenant that has 260 KB to read."""
    client = server.client()
    assert client.post("/v1/tenants", {"name": "slow"}).status == 201
    key = client.post("/v1/api-keys", {"name": "slow", "tenant": "slow", "scopes": ["tasks:read", "tasks:write"]}).json["key"]
    batch = [{"target_type": "NOOP", "delay": "9h", "name": "big", "payload": "x" * 130_000}] * 2
    assert client.post("/v1/tasks/batch", batch, headers={"Authorization": f"Bearer {key}"}, auth=False).status == 201
    client.close()
    return key


@pytest.mark.parametrize("kind", slow_clients.KINDS)
def test_slow_clients_delay_nobody(make_server, files, kind):
    tls = kind == "handshakes"
    # Of what was freed, the sanitizer keeps 256 MB unless it is told otherwise: that is no memory of the server's.
    env = {"ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=8"}
    server = make_server(*(("--tls-cert", files / "server.crt", "--tls-key", files / "server.key") if tls else ()), env=env)
    context = trusting(files) if tls else None
    healthy = Healthy(server, context)
    quiet_ms, before_mb = healthy.slow_ms(1), memory_mb(server)
    key = "none" if tls else key_of_another_tenant(server)
    command = [sys.executable, pathlib.Path(slow_clients.__file__), kind, str(COUNT), str(server.port), key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as slow:
        assert slow.stdout.readline() == "ready\n"
        slow_ms, grown_mb = healthy.slow_ms(SECONDS), memory_mb(server) - before_mb
        slow.stdin.close()
        assert slow.stdout.readline().strip().isdigit()  # none of them was refused a connection
    print(f"{COUNT} {kind}: p{PERCENT} {quiet_ms:.1f} ms before, {slow_ms:.1f} ms, memory +{grown_mb:.0f} MB")
    assert slow_ms <= max(LATENCY_MS, 5 * quiet_ms) and grown_mb <= MEMORY_MB, (quiet_ms, slow_ms, grown_mb)
