"""Circuit breakers: who is held when hosts fail, who goes on, and what people are told of it."""

import contextlib
import threading

import pytest

from server import Receiver, Reply, now_ms, until

pytestmark = pytest.mark.standalone("each process that runs tasks has breakers of its own")

ONCE = {"retry": {"max_attempts": 1}, "delay": "0s"}
NOOP = {"target_type": "NOOP", "delay": "0s"}
SOON_MS = 5000  # far less than the 30 or 60 s for which a breaker is open


@pytest.fixture
def hosts():
    """hosts(n): n receivers. A breaker counts by host and port, so each is a host of its own."""
    with contextlib.ExitStack() as stack:
        yield lambda n: [stack.enter_context(contextlib.closing(Receiver())) for _ in range(n)]


def fail_at_once(client, calls):
    """One task for each of the receivers in `calls`. All of them are called before the first is answered with 503."""
    release = threading.Event()
    for receiver in calls:
        receiver.answer("/fail", Reply(503, hold=release))
    tasks = [client.create(**ONCE, **receiver.target("/fail"))["id"] for receiver in calls]
    for receiver in set(calls):
        receiver.wait("/fail", calls.count(receiver))
    release.set()
    for task in tasks:
        client.wait_for(task, "FAILED")


def call(client, receiver, status, path="/call"):
    """One call that is answered so."""
    receiver.answer(path, Reply(status))
    task = client.create(**ONCE, **receiver.target(path))["id"]
    return client.wait_for(task, "COMPLETED" if status == 200 else "FAILED")


def breakers(client):
    """Those that are not closed, by host; None: the tenant's own. The status is half a second old at most."""
    return {b.get("host"): b for b in client.get("/v1/scheduler/status").json["node"]["breakers"]}


def wait_for_breaker(client, host):
    return until(lambda: breakers(client).get(host), why=lambda: f"{host} is none of {breakers(client)}")


def host_of(receiver):
    return f"127.0.0.1:{receiver.port}"


def test_one_failing_host_delays_no_other_and_no_noop(client, hosts):
    dead, good, new = hosts(3)
    call(client, good, 200)
    fail_at_once(client, [dead] * 25)
    shown = wait_for_breaker(client, host_of(dead))
    assert (shown["state"], shown["failures"], shown["calls"]) == ("open", 10, 10), "the counts that opened it"
    begun = now_ms()
    tasks = [client.create(**ONCE, **receiver.target("/after"))["id"] for receiver in [good, new] for _ in range(5)]
    tasks += [client.create(**NOOP)["id"] for _ in range(5)]
    for task in tasks:
        client.wait_for(task, "COMPLETED")
    assert now_ms() - begun < SOON_MS
    assert None not in breakers(client), "the tenant's own is closed"
    held = client.create(**ONCE, **dead.target("/held"))["id"]
    until(lambda: client.task(held)["last_error"] == f"held: the circuit breaker of {host_of(dead)} is open")
    why = client.get(f"/v1/tasks/{held}/explain").json
    assert why["gate"] == "host_breaker" and "10 of 10 calls to the host failed" in why["explanation"], why
    assert client.task(held)["attempts"] == 0 and not dead.to("/held")


def test_three_failing_hosts_open_the_tenants_breaker_and_healthy_ones_go_on(make_server, hosts, clock):
    server = make_server(env=clock.env)
    client = server.client()
    a, b, c, good, new = hosts(5)
    call(client, good, 200)
    fail_at_once(client, [a, b, c] * 7)
    shown = wait_for_breaker(client, None)
    assert shown["state"] == "open" and shown["failures"] >= 19 and shown["failures"] + 1 >= shown["calls"], shown
    assert set(breakers(client)) == {None}, "no host has failed often enough"
    held = client.create(**ONCE, **new.target("/held"))["id"]
    until(lambda: client.task(held)["last_error"] and client.task(held)["last_error"].startswith("held: the circuit breaker of the tenant"))
    why = client.get(f"/v1/tasks/{held}/explain").json
    assert why["gate"] == "tenant_breaker" and f"none to {host_of(new)} succeeded" in why["explanation"], why
    begun = now_ms()
    for task in [client.create(**ONCE, **good.target("/on"))["id"], client.create(**NOOP)["id"]]:
        client.wait_for(task, "COMPLETED")
    assert now_ms() - begun < SOON_MS
    assert not new.to("/held")
    clock.jump(61_000)
    client.wait_for(held, "COMPLETED")
    until(lambda: not breakers(client), why=lambda: breakers(client))
    call(client, a, 200)


def test_a_success_opens_no_breaker(client, hosts):
    (host,) = hosts(1)
    for status in [503] * 6 + [200] * 4:
        call(client, host, status)
    call(client, host, 200)  # six of the ten before it failed, and still it goes
    call(client, host, 503)
    shown = wait_for_breaker(client, host_of(host))
    assert (shown["state"], shown["failures"], shown["calls"]) == ("open", 7, 12)
