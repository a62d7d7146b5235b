"""Control nodes of a fleet: what each of them does (--roles), who leads when Redis says so (--lease), and what they find when they start after
their queue was wiped."""

import itertools
import os
import signal
import threading

import pytest

import rabbitmq
from fleet import Fleet, Worker
from redis import Redis
from server import Reply, Server, at, now_ms, to_ms, until

LEADS_S = 5  # ten beats are a lease: then somebody else leads
NUMBERS = itertools.count()


@pytest.fixture
def carriers(redis_server):
    """A queue and events on Redis alone: the fewest parts."""
    url = redis_server.url(prefix=f"n{os.getpid()}n{next(NUMBERS)}")
    return ("--queue", url, "--events", url)


@pytest.fixture
def lease():
    with Redis() as server:
        yield server


@pytest.fixture
def make_redis_fleet(build, postgres, database, carriers, tmp_path):
    made = []

    def make(*arguments, **more):
        made.append(Fleet(tmp_path / "fleet", postgres.url(database), carriers, *arguments, **more))
        return made[-1].start()

    yield make
    for fleet in made:
        print(fleet.log())  # which pytest shows of a test that failed
        fleet.close()


def leaders(fleet):
    """The nodes that lead, as those see it that run."""
    said = [fleet.status(node) for node in fleet.running()]
    return [{n["id"] for n in s["nodes"] if n["alive"] and n["leader"]} for s in said if s]


def test_redis_says_who_leads_and_tasks_fire_without_it(make_redis_fleet, lease, receiver):
    fleet = make_redis_fleet("--lease", lease.url(), workers=1).settled()
    client = fleet.client()
    beat = client.create(interval_seconds=1, catch_up_mode="RUN_ALL_MISSED", overlap_policy="ALLOW", **receiver.target("/beat"))
    one = lambda: all(len(seen) == 1 for seen in leaders(fleet)) and len(set(map(frozenset, leaders(fleet)))) == 1
    until(one, why=lambda: f"not one leads: {leaders(fleet)}")
    assert lease.ask("DBSIZE") == "1", "it is not Redis who says so"
    receiver.wait("/beat")

    killed_ms = now_ms()
    leader = fleet.leader()
    leader.kill()
    until(lambda: fleet.leader() not in (None, leader), LEADS_S, why="nobody leads instead")
    assert now_ms() - killed_ms < LEADS_S * 1000

    lease.stop(signal.SIGKILL)
    until(lambda: leaders(fleet) == [set()], LEADS_S, why=lambda: f"somebody leads without its lease: {leaders(fleet)}")
    seen = len(receiver.to("/beat"))
    client.wait_for(client.create(run_at=at(now_ms() + 100), **receiver.target("/alone"))["id"], "COMPLETED")
    receiver.wait("/beat", seen + 2)
    lease.start()
    until(one, LEADS_S, why="nobody leads again")

    client.act(beat["id"], "pause")
    over = lambda: not client.all(f"/v1/tasks/{beat['id']}/occurrences?status=RUNNING,SCHEDULED")
    until(over, why="it goes on")
    ran = [t for t in client.all(f"/v1/tasks/{beat['id']}/occurrences") if t["status"] == "COMPLETED"]
    times = sorted(to_ms(t["scheduled_for"]) for t in ran)
    assert times == list(range(times[0], times[-1] + 1, 1000)), "not one each second"
    assert {c.id for c in receiver.to("/beat")} >= {t["id"] for t in ran}


def test_a_control_nodes_death_repeats_nothing_that_is_in_the_queue(make_redis_fleet, postgres, database, receiver):
    """It dies when its tasks are in the queue, and before it records that."""
    fleet = make_redis_fleet("--concurrency", "50", env=[{"BELFRY_FAILPOINT": "before_handoff:kill"}, {}], workers=2)
    dies, other = fleet.nodes
    client, go = fleet.client(), threading.Event()
    receiver.answer("/held", Reply(hold=go))
    batch = [{"run_at": at(now_ms()), "delivery": delivery, **receiver.target("/held")} for delivery in ("AT_LEAST_ONCE", "AT_MOST_ONCE") * 12]
    tasks = [t["id"] for t in client.post("/v1/tasks/batch", batch).json["tasks"]]
    until(lambda: not dies.runs(), why="it hands nothing over")
    receiver.wait("/held", len(tasks))
    held = postgres.sql("SELECT count(*) FROM claims JOIN tasks ON claim_id = claims.id WHERE hold = 0", database)
    until(lambda: "node_marked_dead" in other.log(), why="nobody misses it")
    postgres.until("SELECT 1 WHERE NOT EXISTS (SELECT FROM claims WHERE hold = 0)", database)
    go.set()
    for task in tasks:
        client.wait_for(task, "COMPLETED")
    assert int(held[0]) > 0
    assert sorted(c.id for c in receiver.to("/held")) == sorted(tasks), f"each of them once, though a dead node had claimed {held}"


def test_a_node_that_only_answers_and_one_that_only_schedules_are_a_fleet(build, postgres, database, carriers, receiver, tmp_path):
    common = ("--store", postgres.url(database), *carriers)
    api = Server(tmp_path / "api", *common, "--roles", "api")
    other = Server(tmp_path / "other", *common, "--roles", "scheduler, updater,worker")
    try:
        client = api.start().client()
        waiting = client.create(run_at=at(now_ms()), **receiver.target("/waiting"))["id"]
        (alone,) = until(lambda: client.get("/v1/scheduler/status").json["nodes"], why="it is no node")
        assert (alone["state"], alone["leader"], alone["partitions"]) == ("serving", False, 0), alone
        assert client.task(waiting)["status"] == "SCHEDULED" and not receiver.calls
        other.launch()
        client.wait_for(waiting, "COMPLETED")
        assert "has no API" in other.log() and other.port is None, other.log()
        receiver.answer("/slow", Reply(takes_s=30))
        later, slow = (client.create(run_at=at(now_ms() + ms), **receiver.target(path))["id"] for ms, path in ((700, "/later"), (0, "/slow")))
        receiver.wait("/slow")
        for task in (later, slow):  # which another node has
            assert client.post(f"/v1/tasks/{task}/cancel").status in (200, 202)
            client.wait_for(task, "CANCELLED")
        leads = lambda: [n["state"] for n in client.get("/v1/scheduler/status").json["nodes"] if n["alive"] and n["leader"]]
        until(lambda: leads() == ["ready"], why=lambda: f"{client.get('/v1/scheduler/status')}")
        other.stop()
        api.stop()
        assert not receiver.to("/later")
    finally:
        for node in (api, other):
            print(node.log())
            node.close()


@pytest.fixture
def on_redis(build, tmp_path):
    """A Redis of its own, a node with a store of its own, and a worker."""
    with Redis() as redis:
        carriers = ("--queue", redis.url(), "--events", redis.url())
        node, worker = Server(tmp_path / "node", *carriers), Worker(tmp_path / "worker", *carriers)
        try:
            client = node.start().client()
            worker.start()
            until(lambda: len(client.get("/v1/workers").json["workers"]) == 1, why="the worker is not heard of")
            yield redis, node, worker, client
        finally:
            redis.go_on()
            for process in (node, worker):
                print(process.log())
                process.close()


def test_after_a_silence_of_redis_no_older_copy_is_called_and_nothing_that_was_cancelled_meanwhile(on_redis, receiver):
    redis, node, worker, client = on_redis
    beat = client.create(cron_expression="0 0 1 1 *", **receiver.target("/beat"))["id"]
    before = client.create(**receiver.target("/before"))["id"]
    client.wait_for(before, "COMPLETED")
    redis.pause()
    first = client.create(**receiver.target("/first"))["id"]  # its push is sent, and has no answer
    client.wait_for(first, "RUNNING")
    client.act(beat, "run-now")  # its push is behind that one, and not sent
    runs = lambda: client.get(f"/v1/tasks/{beat}/occurrences").json["tasks"]
    until(lambda: [run["status"] for run in runs()] == ["RUNNING"], why=lambda: f"{runs()}")
    client.act(beat, "cancel")
    (call,) = receiver.wait("/first")
    assert call.fence == 2, call  # by the node itself
    until(lambda: runs()[0]["status"] != "RUNNING", why=lambda: f"{runs()}")
    redis.go_on()

    def on_the_worker():
        client.wait_for(task := client.create(**receiver.target("/after"))["id"], "COMPLETED")
        return client.all(f"/v1/tasks/{task}/executions", "executions")[0]["worker"].endswith(f":{worker.process.pid}")

    until(on_the_worker, why="the worker gets nothing")  # and so what Redis had before
    assert [call.fence for call in receiver.to("/first")] == [2]
    assert not receiver.to("/beat") and [run["status"] for run in runs()] == ["CANCELLED"], runs()


@pytest.fixture
def rabbit():
    """One that nobody else needs."""
    if not rabbitmq.installed():
        pytest.skip("RabbitMQ: Debian's package rabbitmq-server is not installed")
    with rabbitmq.RabbitMQ() as server:
        yield server


def test_control_nodes_that_start_after_rabbitmq_was_wiped_run_what_it_has_lost(build, postgres, database, rabbit, receiver, tmp_path):
    """Nobody has seen that it was another before, and RabbitMQ cannot be asked which messages it has."""
    url = rabbit.url(prefix="wiped")
    fleet = Fleet(tmp_path / "fleet", postgres.url(database), ("--queue", url, "--events", url), workers=1)
    dead = fleet.workers[0]
    try:
        client = fleet.start().client()
        dead.kill()  # nobody hears of it: tasks are pushed for it
        fleet.workers.remove(dead)
        fleet.processes.remove(dead)
        lost = [client.create(run_at=at(now_ms()), **receiver.target("/lost"))["id"] for _ in range(40)]
        once = client.create(run_at=at(now_ms()), delivery="AT_MOST_ONCE", **receiver.target("/once"))["id"]
        waiting = lambda: (fleet.status() or {}).get("queue", {}).get("waiting")
        until(lambda: waiting() == 41, why=lambda: f"{fleet.status()}")
        fleet.stop()
        rabbit.wipe()
        fleet.start()
        there = [client.create(run_at=at(now_ms()), **receiver.target("/there"))["id"] for _ in range(10)]
        until(lambda: waiting() == 50, why=lambda: f"{fleet.status()}")
        assert client.wait_for(once, "FAILED")
        fleet.add_worker()
        for task in lost + there:
            client.wait_for(task, "COMPLETED")
        assert sorted(c.id for c in receiver.to("/lost")) == sorted(lost), "each of them once"
        assert sorted(c.id for c in receiver.to("/there")) == sorted(there), "each of them once"
        assert not receiver.to("/once")
    finally:
        print(fleet.log())
        fleet.close()
        dead.close()


QUEUE = ("--queue", "redis://127.0.0.1:1", "--events", "redis://127.0.0.1:1")
STORE = ("--store", "postgres://127.0.0.1:1/none")


@pytest.mark.parametrize("arguments, says", [
    ((*STORE, *QUEUE, "--roles", "api,singer"), "'singer'"),
    ((*STORE, *QUEUE, "--roles", "api,,updater"), "''"),
    ((*STORE, *QUEUE, "--roles", "worker"), "belfry worker"),
    ((*QUEUE, "--roles", "api,updater"), "--store"),
    ((*STORE, "--roles", "api"), "--queue"),
])
def test_roles_that_make_no_sense_are_refused_in_a_line(belfry, tmp_path, arguments, says):
    done = belfry("serve", "--data-dir", tmp_path, *arguments)
    (line,) = done.err.splitlines()
    assert done.code == 2 and line.startswith("belfry serve: --roles ") and says in line, line


def test_a_lease_without_a_queue_is_refused(belfry, tmp_path):
    done = belfry("serve", "--data-dir", tmp_path, "--lease", "redis://127.0.0.1:1")
    assert done.code == 2 and done.err.count("\n") == 1 and "--lease" in done.err, done
