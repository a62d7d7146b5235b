"""Circuit breakers: who is held when hosts fail, who goes on, and what people are told of it."""

import contextlib
import threading

import pytest

from server import Receiver, Reply, now_ms, to_ms, until

ONE = pytest.mark.standalone("it counts calls until a breaker opens, and each process that runs tasks counts its own")

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


def listed(client, **more):
    """GET /v1/breakers, by host; None: the tenant's own."""
    answer = client.get("/v1/breakers", **more)
    assert answer.status == 200, answer
    return {b.get("host"): b for b in answer.json["breakers"]}


def wait_until_listed(client, host, **more):
    return until(lambda: listed(client, **more).get(host), why=lambda: f"{host} is none of {listed(client, **more)}")


def wait_until_held(client, task):
    until(lambda: (client.task(task)["last_error"] or "").startswith("held: "), why=lambda: client.task(task))


def host_of(receiver):
    return f"127.0.0.1:{receiver.port}"


@ONE
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


@ONE
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


@ONE
def test_a_success_opens_no_breaker(client, hosts):
    (host,) = hosts(1)
    for status in [503] * 6 + [200] * 4:
        call(client, host, status)
    call(client, host, 200)  # six of the ten before it failed, and still it goes
    call(client, host, 503)
    shown = wait_for_breaker(client, host_of(host))
    assert (shown["state"], shown["failures"], shown["calls"]) == ("open", 7, 12)


@ONE
def test_a_breaker_is_listed_survives_a_restart_and_closes_by_a_trial(make_server, hosts, clock, belfry):
    server = make_server(env=clock.env)
    client = server.client()
    (dead,) = hosts(1)
    fail_at_once(client, [dead] * 12)
    shown = wait_until_listed(client, host_of(dead))
    assert (shown["state"], shown["scope"], shown["calls"], shown["failures"], shown["reopened"]) == ("OPEN", "host", 10, 10, 0), shown
    assert shown["tenant"] == "default"
    assert shown["reason"] and to_ms(shown["retry_at"]) - to_ms(shown["opened_at"]) >= 29_000, shown
    held = [client.create(**ONCE, **dead.target("/held"))["id"] for _ in range(3)]
    for task in held:
        wait_until_held(client, task)
    due = client.task(held[0])["next_run_at"] if "next_run_at" in client.task(held[0]) else None
    why = client.get(f"/v1/tasks/{held[0]}/explain").json
    for part in [host_of(dead), "10 of 10 calls", "open since", "the next trial is at", f"belfry breakers close {shown['id']}"]:
        assert part in why["explanation"], why
    server.stop()
    server.start()
    client = server.client()
    assert listed(client)[host_of(dead)] == shown, "a restart keeps it as it was"
    assert client.task(held[0]).get("next_run_at") == due, "a held task keeps its time"
    dead.answer("/held", Reply(503), Reply(200))
    clock.jump(31_000)
    dead.wait("/held", 1)
    again = until(lambda: (b := listed(client)[host_of(dead)])["reopened"] == 1 and b, why=lambda: listed(client))
    assert again["id"] == shown["id"] and again["state"] == "OPEN"
    assert len(dead.to("/held")) == 1, "one trial"
    clock.jump(31_000)
    dead.wait("/held", 3)
    until(lambda: not listed(client), why=lambda: listed(client))
    shows_none = belfry("breakers", "list", "--server", server.url, "--data-dir", server.data_dir)
    assert shows_none.code == 0 and "no circuit breaker is open" in shows_none.out + shows_none.err, shows_none


@ONE
def test_a_breaker_closed_by_hand_lets_its_tasks_run_at_once(server, client, hosts, belfry):
    (dead,) = hosts(1)
    fail_at_once(client, [dead] * 12)
    shown = wait_until_listed(client, host_of(dead))
    held = [client.create(**ONCE, **dead.target("/held"))["id"] for _ in range(20)]
    for task in held:
        wait_until_held(client, task)
    where = ("--server", server.url, "--data-dir", server.data_dir)
    table = belfry("breakers", "list", *where)
    assert table.code == 0 and host_of(dead) in table.out and "OPEN" in table.out and "10/10" in table.out, table
    begun = now_ms()
    closed = belfry("breakers", "close", shown["id"], *where)
    assert closed.code == 0 and "closed" in closed.out, closed
    for task in held:
        client.wait_for(task, "COMPLETED")
    assert now_ms() - begun < SOON_MS
    assert listed(client) == {}
    assert client.post(f"/v1/breakers/{shown['id']}/close", {"why": "x"}).status == 400, "it takes no body"
    gone = client.post(f"/v1/breakers/{shown['id']}/close")
    assert gone.status == 404 and "closed already" in gone.json["detail"], gone


def test_a_close_repeats_its_answer_by_its_key_and_filters_choose(client, hosts):
    one, two = hosts(2)
    fail_at_once(client, [one, two] * 40)
    shown = wait_until_listed(client, host_of(one))
    wait_until_listed(client, host_of(two))
    assert [b["host"] for b in client.get(f"/v1/breakers?host={host_of(one)}").json["breakers"]] == [host_of(one)]
    assert client.get("/v1/breakers?scope=tenant").json["breakers"] == []
    assert client.get("/v1/breakers?host=").status == 400, "a variable that is not set must not mean all"
    page = client.get("/v1/breakers?scope=host&limit=1").json
    assert len(page["breakers"]) == 1 and len(client.all("/v1/breakers", "breakers")) == 2, page
    first = client.post(f"/v1/breakers/{shown['id']}/close", key="close-1")
    again = client.post(f"/v1/breakers/{shown['id']}/close", key="close-1")
    assert first.status == again.status == 200 and first.json == again.json and first.json["state"] == "CLOSED", (first, again)


def test_a_tenant_neither_sees_nor_closes_nor_suffers_from_anothers_breaker(client, hosts):
    (dead,) = hosts(1)
    scopes = ["tasks:write", "tasks:read", "queues:read", "queues:write"]
    assert client.post("/v1/tenants", {"name": "other"}).status == 201
    other = {"headers": {"Authorization": f"Bearer {client.post('/v1/api-keys', {'tenant': 'other', 'name': 'k', 'scopes': scopes}).json['key']}"}, "auth": False}
    reader = {"headers": {"Authorization": f"Bearer {client.post('/v1/api-keys', {'name': 'r', 'scopes': ['queues:read']}).json['key']}"}, "auth": False}
    fail_at_once(client, [dead] * 40)
    shown = wait_until_listed(client, host_of(dead))
    held = client.create(**ONCE, **dead.target("/held"))["id"]
    assert listed(client, **other) == {}
    assert client.post(f"/v1/breakers/{shown['id']}/close", **other).status == 404
    assert client.post(f"/v1/breakers/{shown['id']}/close", **reader).status == 403
    assert host_of(dead) in listed(client, **reader)
    assert client.post("/v1/tasks", {**ONCE, **dead.target("/theirs")}, **other).status == 201
    dead.wait("/theirs")
    assert client.task(held)["status"] == "SCHEDULED" or dead.to("/held") == []
    assert host_of(dead) in listed(client)


def test_what_one_node_opens_the_others_list_and_honour_and_close(make_cluster, postgres, hosts):
    database = postgres.new_database()
    try:
        cluster = make_cluster(postgres.url(database), nodes=2)
        client = cluster.client()
        a, b = cluster.nodes
        (dead,) = hosts(1)
        fail_at_once(client, [dead] * 24)
        shown = wait_until_listed(client, host_of(dead), node=a)
        assert wait_until_listed(client, host_of(dead), node=b) == shown
        held = [client.create(**ONCE, **dead.target("/held"))["id"] for _ in range(40)]
        for task in held:
            wait_until_held(client, task)
        assert not dead.to("/held"), "no node calls it"
        a.signal(15)
        assert a.ended() == 0, a.log()
        a.launch()
        a.listening()
        assert listed(client, node=a)[host_of(dead)]["id"] == shown["id"]
        begun = now_ms()
        assert client.post(f"/v1/breakers/{shown['id']}/close", node=b).status == 200
        for task in held:
            client.wait_for(task, "COMPLETED")
        assert now_ms() - begun < SOON_MS
        assert listed(client, node=a) == listed(client, node=b) == {}
        cluster.stop()
    finally:
        postgres.start().drop_database(database)


def test_workers_of_a_fleet_open_a_breaker_for_all_and_it_closes_by_hand(make_fleet, hosts):
    fleet = make_fleet(workers=2)
    client = fleet.client()
    (dead,) = hosts(1)
    fail_at_once(client, [dead] * 30)
    shown = wait_until_listed(client, host_of(dead))
    assert shown["failures"] >= 10

    def is_held():
        task = client.create(**ONCE, **dead.target("/early"))["id"]
        return until(lambda: (t := client.task(task)) and (t["status"] == "COMPLETED" or t["last_error"]) and t)["last_error"]

    until(lambda: all([is_held() for _ in range(6)]), why="a control node does not know of it")
    called = len(dead.to("/early"))
    held = [client.create(**ONCE, **dead.target("/held"))["id"] for _ in range(20)]
    for task in held:
        wait_until_held(client, task)
    why = client.get(f"/v1/tasks/{held[0]}/explain").json
    assert why["gate"] == "host_breaker" and "open since" in why["explanation"], why
    assert not dead.to("/held")
    assert len(dead.to("/early")) == called
    begun = now_ms()
    assert client.post(f"/v1/breakers/{shown['id']}/close").status == 200
    for task in held:
        client.wait_for(task, "COMPLETED")
    assert now_ms() - begun < 3 * SOON_MS, "a worker whose own breaker is open tries one task first"
    until(lambda: not listed(client), why=lambda: listed(client))


@ONE
def test_the_delay_of_a_task_that_waits_for_retry_after_counts_from_its_own_time(client, hosts):
    [host] = hosts(1)
    host.answer("/busy", Reply(429, headers={"Retry-After": "2"}))
    first = client.create(**ONCE, **host.target("/busy"))["id"]
    client.wait_for(first, "FAILED")
    second = client.create(**ONCE, **host.target("/free"))["id"]
    client.wait_for(second, "COMPLETED")
    [execution] = client.get(f"/v1/tasks/{second}/executions").json["executions"]
    assert execution["delay_ms"] > 1000 and execution["delay_cause"] == "RETRY_AFTER", execution
    assert abs(execution["delay_ms"] - (to_ms(execution["started_at"]) - to_ms(execution["scheduled_for"]))) <= 1
    shown = [line for line in client.get("/metrics").body.decode().splitlines() if line.startswith("belfry_late_seconds_total")]
    assert [line.split()[0] for line in shown] == ['belfry_late_seconds_total{cause="RETRY_AFTER"}'] and float(shown[0].split()[1]) > 1
