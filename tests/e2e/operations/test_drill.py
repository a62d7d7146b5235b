"""The operator's drill of docs/RUNBOOK.md: each thing is broken, and what the page promises tells so: the alert, the log, the metric and the sentence of
explain. Alerts that are computed from the figures of a minute are waited for in ./test long only."""

import contextlib
import os
import pathlib
import re
import signal
import threading

import pytest

from cluster import LONG
from fleet import Fleet
from redis import Redis, program
from server import Reply, Server, at, to_ms, until
from small_disk import fill, small_disk  # noqa: F401
from test_alerts import told
from test_metrics import figures
from test_transitions import transitions

pytestmark = pytest.mark.heavy

RUNBOOK = pathlib.Path(__file__).parents[3] / "docs/RUNBOOK.md"
HOUR_MS = 3600_000
JUDGED_S = 100  # a minute ends, and is judged 10 s later
ALERT, LOG, METRIC, GATE = range(4)
DRILLS = {  # as in the table of the runbook: alert, events of the log, metric, gate of explain
    "the store": ("BelfryClaimsFailing", ("heartbeat_failed", "claim_failed"), "belfry_claim_failures_total", None),
    "the disk": ("BelfryClaimsFailing", ("claim_failed",), "belfry_claim_failures_total", "store"),
    "the queue": ("BelfryBackendDown", ("backend_down", "push_failed"), "belfry_backend_down", "queue_down"),
    "a node": ("BelfryRecoveries", ("node_marked_dead", "recovered"), "belfry_tasks_recovered_total", "running"),
    "a target that fails": ("BelfryFailures", ("transition",), "belfry_task_failures_total", "host_breaker"),
    "a target that hangs": ("BelfryBusy", ("transition",), "belfry_tasks_running", "no_free_slot"),
    "the clock of a node": ("BelfryClockSkew", ("clock_skewed",), "belfry_clock_offset_seconds", "due_time"),
    "the clock of the only node": ("BelfryClockSkew", ("clock_was_set",), "belfry_clock_jumps_total", "due_time"),
}


def test_the_table_of_the_runbook_has_these_drills():
    section = re.search(r"^## The drill\n(.*?)(?=^## )", RUNBOOK.read_text(), re.M | re.S)[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")][1:]
    named = lambda cell: re.findall(r"`(\w+)", cell)
    found = {row[0]: (named(row[2])[0], tuple(named(row[3])), named(row[4])[0], (named(row[5]) or [None])[0]) for row in rows}
    assert found == DRILLS


def logged(server, drill):
    """Each of its events is in the log of some process."""
    for event in DRILLS[drill][LOG]:
        until(lambda event=event: any(f"event={event} " in line for p in server.processes for line in list(p.lines)), 20, why=lambda event=event: f"no line {event}:\n{server.log()[-3000:]}")


def explained(client, task, gate, part, **more):
    """Waits until explain names this gate; its sentence says `part`."""
    seen = {}

    def look():
        seen.update(client.get(f"/v1/tasks/{task}/explain", **more).json)
        return seen["gate"] == gate

    until(look, 20, why=lambda: f"not {gate}: {seen}")
    assert part in seen["explanation"], seen


def alerts(client, drill):
    """Its alert is pending, or fires already."""
    name = DRILLS[drill][ALERT]
    return until(lambda: (a := told(client)[name])["state"] != "inactive" and a, 20, why=lambda: f"{told(client)[name]}")


def alerts_in_time(client, drill):
    """The same for an alert that needs the figures of a minute."""
    name = DRILLS[drill][ALERT]
    if LONG:
        until(lambda: told(client)[name]["state"] != "inactive", JUDGED_S, why=lambda: f"{told(client)[name]}")


# ----------------------------------------------------------------------------------------------------------------------
# the store, the disk, the queue


def test_the_store_is_stopped(make_cluster, postgres, database, receiver):
    """The store also knows the keys: a node answers /metrics and /v1/alerts to a key that it knows. What needs no key tells it at any time."""
    cluster = make_cluster(postgres.url(database), nodes=2).settled()
    client = cluster.client()
    scraper = client.post("/v1/api-keys", {"name": "scraper", "scopes": ["metrics:read", "status:read"]}).json["key"]
    task = client.create(interval_seconds=1, **receiver.target("/beat"))["id"]
    receiver.wait("/beat")
    ask = lambda path, node: client.get(path, node=node, headers={"Authorization": f"Bearer {scraper}"})
    assert all(ask("/metrics", node).status == 200 for node in cluster.nodes), "from now on its key is known"
    last = [ask("/v1/alerts", node).json["as_of"] for node in cluster.nodes]
    postgres.stop("fast")
    for node in cluster.nodes:
        state = lambda node=node: {a["name"]: a["state"] for a in ask("/v1/alerts", node).json.get("alerts", ())}.get("BelfryClaimsFailing")
        until(lambda: state() == "pending", 8, why=lambda: f"without the store it is not told: {ask('/v1/alerts', node)}\n{cluster.log()[-1500:]}")
    for node in cluster.nodes:
        counted = re.compile(rf"^{DRILLS['the store'][METRIC]} [1-9]", re.M)
        until(lambda node=node: counted.search(ask("/metrics", node).body.decode()), 20, why="nothing was counted")
        assert client.get("/health", auth=False, node=node).status == 200
        ready = client.get("/ready", auth=False, node=node)
        assert ready.status == 503 and "the store cannot be reached" in ready.json["detail"]
        assert "the store cannot be reached" in client.get(f"/v1/tasks/{task}/explain", node=node).json["detail"]
    logged(cluster, "the store")
    for node, as_of in zip(cluster.nodes, last):
        answer = ask("/v1/alerts", node)
        assert answer.status == 200 and answer.json["as_of"] == as_of and {a["name"]: a["state"] for a in answer.json["alerts"]}["BelfryClaimsFailing"] != "inactive"
        assert ask("/v1/stats", node).status == 503
    postgres.start()
    seen = len(receiver.to("/beat"))
    receiver.wait("/beat", seen + 1)


def test_the_disk_is_full(build, small_disk, receiver):  # noqa: F811
    server = Server(small_disk / "data").start()
    try:
        client = server.client()
        body = {"payload": {"text": "x" * 2000}, "delay": "2s", **receiver.target("/full")}
        made = [client.create(**body)["id"] for _ in range(10)]
        unclaimed = client.create(**body, delivery="AT_MOST_ONCE")["id"]  # until it is due; the others are claimed ahead
        fill(small_disk)
        while (answer := client.post("/v1/tasks", body)).status == 201:
            made.append(answer.json["id"])
        assert answer.status == 503, answer
        explained(client, unclaimed, "store", "this node cannot claim it: the store cannot be reached, or cannot write, since")
        assert alerts(client, "the disk")["value"] > 0
        assert figures(client)[DRILLS["the disk"][METRIC]] > 0
        logged(server, "the disk")
        assert any("event=claim_failed " in line and "full" in line for line in server.lines), "it does not say why"
        os.unlink(small_disk / "ballast")
        for task in (made[-1], unclaimed):
            client.wait_for(task, "COMPLETED")
    finally:
        server.close()


@contextlib.contextmanager
def stoppable(kind, request):
    """A queue: its URL, what stops it and what starts it again."""
    if kind == "rabbitmq":
        server = request.getfixturevalue("rabbitmq_server")
        yield server.url(prefix=f"drill{os.getpid()}"), server.stop, server.start
        server.start()
        return
    if not program():
        pytest.skip("Redis: Debian's package redis-server is not installed")
    with Redis() as server:
        yield server.url(prefix="drill"), lambda: server.stop(signal.SIGKILL), server.start


@pytest.mark.parametrize("kind", ["redis", pytest.param("rabbitmq", marks=pytest.mark.skipif(not LONG, reason="only in ./test long"))])
def test_the_queue_is_stopped(kind, request, build, postgres, database, receiver, tmp_path):
    with stoppable(kind, request) as (url, stop, start):
        fleet = Fleet(tmp_path / "fleet", postgres.url(database), ("--queue", url, "--events", url), env={"BELFRY_QUEUE_FALLBACK": "wait"}, nodes=1, workers=1)
        try:
            client = fleet.start().client()
            client.wait_for(client.create(**receiver.target("/before"))["id"], "COMPLETED")
            stop()
            task = client.create(**receiver.target("/after"))["id"]
            explained(client, task, "queue_down", "the queue of the fleet does not answer since")
            assert alerts(client, "the queue")["value"] == 1
            assert figures(client)['belfry_backend_down{backend="queue"}'] == 1
            logged(fleet, "the queue")
            start()
            client.wait_for(task, "COMPLETED")
            until(lambda: figures(client)['belfry_backend_down{backend="queue"}'] == 0)
        finally:
            print(fleet.log())
            fleet.close()


# ----------------------------------------------------------------------------------------------------------------------
# a node


def test_a_node_is_killed(make_cluster, postgres, database, receiver):
    cluster = make_cluster(postgres.url(database)).settled()
    client = cluster.client()
    hold = threading.Event()
    receiver.answer("/held", Reply(hold=hold), Reply(hold=hold))
    task = client.create(delivery="AT_LEAST_ONCE", **receiver.target("/held"))["id"]
    receiver.wait("/held")
    runs_on = lambda: [n for n in cluster.running() if "it runs since" in client.get(f"/v1/tasks/{task}/explain", node=n).json["explanation"]]
    [victim] = until(runs_on, why="it runs nowhere")
    victim.kill()
    receiver.wait("/held", 2)
    [other] = until(runs_on, why="it runs nowhere else")
    explained(client, task, "running", "it has fired", node=other)
    logged(cluster, "a node")
    recovered = lambda: sum(figures(Through(client, n))[DRILLS["a node"][METRIC]] for n in cluster.running())
    until(recovered, why="no claim was released")
    assert [n["alive"] for n in client.get("/v1/scheduler/status").json["nodes"]].count(False) == 1
    alerts_in_time(client, "a node")
    hold.set()
    client.wait_for(task, "COMPLETED")


class Through:
    """A client whose requests go to one node."""

    def __init__(self, client, node):
        self.get = lambda path: client.get(path, node=node)


# ----------------------------------------------------------------------------------------------------------------------
# targets


@pytest.mark.standalone("each process that runs tasks counts its own calls")
def test_a_target_fails(make_server, receiver):
    server = make_server()
    client = server.client()
    release = threading.Event()
    receiver.answer("/down", Reply(503, hold=release))
    tasks = [client.create(retry={"max_attempts": 1}, **receiver.target("/down"))["id"] for _ in range(25)]
    receiver.wait("/down", len(tasks))
    release.set()
    for task in tasks:
        client.wait_for(task, "FAILED")
    next_one = client.create(**receiver.target("/down"))["id"]
    explained(client, next_one, "host_breaker", f"127.0.0.1:{receiver.port}")
    now = until(lambda: (f := figures(client)) and any("belfry_breaker_state" in name for name in f) and f)
    assert now['belfry_task_failures_total{fault="target"}'] >= len(tasks)
    assert "503" in until(lambda: transitions(server, tasks[0]))[0]["error"]
    alerts_in_time(client, "a target that fails")


@pytest.mark.standalone("the slots of one node")
def test_a_target_hangs(make_server, receiver):
    server = make_server("--concurrency", "4")
    client = server.client()
    hold = threading.Event()
    receiver.answer("/hangs", Reply(hold=hold))
    try:
        short = client.create(timeout_ms=500, retry={"max_attempts": 1}, **receiver.target("/hangs"))["id"]
        client.wait_for(short, "FAILED")
        assert "TIMEOUT" in until(lambda: transitions(server, short))[0]["error"].upper().replace("TIMED OUT", "TIMEOUT")
        for _ in range(4):
            client.create(timeout_ms=300_000, **receiver.target("/hangs"))
        receiver.wait("/hangs", 5)
        waiting = client.create(target_type="NOOP")["id"]
        explained(client, waiting, "no_free_slot", "all 4 slots of this node are taken")
        until(lambda: (f := figures(client))["belfry_tasks_running"] == 4 == f["belfry_worker_slots"])
        alerts_in_time(client, "a target that hangs")
    finally:
        hold.set()
    client.wait_for(waiting, "COMPLETED")


# ----------------------------------------------------------------------------------------------------------------------
# clocks


@pytest.mark.standalone("the clock of a cluster is its store's")
@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS], ids=["back", "forward"])
def test_the_clock_of_the_only_node_is_set(make_server, clock, jump_ms):
    server = make_server(env=clock.env)
    client = server.client()
    task = client.create(run_at=at(clock.now_ms() + 3 * HOUR_MS), target_type="NOOP")
    clock.jump(jump_ms)
    client.wait_for(client.create(target_type="NOOP")["id"], "COMPLETED")
    logged(server, "the clock of the only node")
    [line] = [line for line in server.lines if "event=clock_was_set " in line]
    assert abs(int(re.search(r"by_ms=(-?\d+)", line)[1]) - jump_ms) < 5000, line
    assert figures(client)[DRILLS["the clock of the only node"][METRIC]] == 1
    assert abs(alerts(client, "the clock of the only node")["value"] - 3600) < 5
    explained(client, task["id"], "due_time", f"it is due at {task['run_at']}")


def test_the_clock_of_a_node_differs_from_the_store(make_cluster, postgres, database, clocks):
    cluster = make_cluster(postgres.url(database), env=[clocks[0].env, None], nodes=2).settled()
    client = cluster.client()
    wrong = cluster.nodes[0]
    clocks[0].jump(-60_000)
    offset = lambda: figures(Through(client, wrong))[DRILLS["the clock of a node"][METRIC]]
    until(lambda: 59 < offset() < 61, 20, why=lambda: f"it is {offset()} s")
    logged(cluster, "the clock of a node")
    task = client.create(delay="1h", target_type="NOOP")
    explained(client, task["id"], "due_time", "it is due at")
    assert abs(to_ms(client.get("/v1/scheduler/status", node=wrong).json["time"]) - clocks[1].now_ms()) < 5000, "tasks go by the store's clock"
    alerts_in_time(client, "the clock of a node")
    clocks[0].jump(60_000)
    until(lambda: any("event=clock_agrees " in line for line in wrong.lines), 20)
