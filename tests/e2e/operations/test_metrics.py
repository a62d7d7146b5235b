"""Metrics that concern all nodes together."""

import re
import time

import pytest

from server import Reply, to_ms, until
from test_tenants import Tenant


def figures(client):
    """The series of /metrics: name and labels to value."""
    lines = client.get("/metrics").body.decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and line[0] != "#"}


def of_leader(client):
    """Only the leader counts for all; requests go to the nodes in turn."""
    def ask():
        found = figures(client)
        return found if "belfry_queue_depth" in found else None
    return until(ask, timeout_s=30)


def depth(client):
    return of_leader(client)["belfry_queue_depth"]


def due_by_node(client):
    return [value for name, value in of_leader(client).items() if name.startswith("belfry_partition_due")]


@pytest.mark.cluster(when="always")
def test_the_depth_of_the_queue_is_what_waits_in_the_store_too(client):
    """2,000 tasks wait for a worker that never comes, in two queues; a third queue is paused."""
    batch = lambda queue, n, **more: [{"queue": queue, "task_type": "w", "target_type": "WORKER", **more} for _ in range(n)]
    assert client.request("PATCH", "/v1/queues/c", {"paused": True}).status == 200
    for tasks in (batch("a", 1500), batch("b", 500, priority=9), batch("c", 300)):
        assert client.post("/v1/tasks/batch", tasks).status == 201
    until(lambda: depth(client) == 2000, timeout_s=20, why=lambda: f"the depth is {depth(client)}")
    now = of_leader(client)
    assert now['belfry_queue_backlog{tenant="default",queue="a"}'] == 1500 and now['belfry_queue_backlog{tenant="default",queue="b"}'] == 500
    assert now['belfry_backlog{class="normal"}'] == 1500 and now['belfry_backlog{class="high"}'] == 500
    by_node = until(lambda: (v := due_by_node(client)) and sum(v) == 2300 and v, why=lambda: f"without the paused queue: {due_by_node(client)}")
    assert len(by_node) == len(client.get("/v1/scheduler/status").json["nodes"]), "the paused queue is in it"
    assert not any(re.search('queue="c"', name) for name in now) and now["belfry_queue_depth_age_seconds"] < 20
    assert len(client.post("/v1/leases", {"worker": "one", "queue": "a", "max": 10}).json["leases"]) == 10
    until(lambda: depth(client) == 1990, timeout_s=20, why=lambda: f"the depth is {depth(client)}")


@pytest.mark.standalone("each node counts for itself")
def test_ends_are_counted_by_outcome_fault_route_and_tenant(client, receiver):
    """A success, a failure that no retry changes, and one retry because the target was busy."""
    before = figures(client)
    receiver.answer("/gone", Reply(410))
    receiver.answer("/busy", Reply(503), Reply(200))
    made = [client.create(retry={"base_delay_ms": 50, "jitter": "NONE"}, **receiver.target(path))["id"] for path in ("/good", "/gone", "/busy")]
    for task, state in zip(made, ("COMPLETED", "FAILED", "COMPLETED")):
        client.wait_for(task, state)
    assert client.get("/v1/nothing").status == 404
    now = figures(client)
    grown = lambda name: now[name] - before.get(name, 0)
    assert grown("belfry_tasks_claimed_total") >= 4 and grown("belfry_dead_letters_total") == 1
    assert grown('belfry_task_failures_total{fault="request"}') == grown('belfry_task_failures_total{fault="target"}') == 1
    outcomes = {o: grown(f'belfry_tenant_tasks_total{{tenant="default",outcome="{o}"}}') for o in ("completed", "failed", "retried", "lost", "expired")}
    assert outcomes == {"completed": 2, "failed": 1, "retried": 1, "lost": 0, "expired": 0}
    assert grown("belfry_start_delay_seconds_count") == grown('belfry_tenant_delay_seconds_count{tenant="default"}') == 3
    assert grown("belfry_run_seconds_total") > 0 and grown("belfry_store_wait_seconds_count") > 0
    assert grown('belfry_http_responses_total{route="POST /v1/tasks",code="2xx"}') == 3
    assert grown('belfry_http_responses_total{route="_unknown",code="4xx"}') == 1
    assert now['belfry_tenant_running{tenant="default"}'] >= 0 and now['belfry_series_folded{kind="tenant"}'] == 0


@pytest.mark.standalone("each node counts for itself")
def test_a_task_that_the_users_worker_asks_for_late_is_not_late_by_belfry(client):
    before = figures(client)
    task = client.create(target_type="WORKER", queue="idle")
    until(lambda: time.time() * 1000 - to_ms(task["run_at"]) > 150, why="the clock stands still")
    lease = client.post("/v1/leases", {"queue": "idle"}).json["leases"][0]
    assert client.post(f"/v1/leases/{lease['id']}/complete", {}).status == 200
    assert client.all(f"/v1/tasks/{task['id']}/executions", "executions")[0]["delay_cause"] == "ROOM"
    now = figures(client)
    grown = lambda name: now.get(name, 0) - before.get(name, 0)
    assert grown("belfry_tasks_executed_total") == 1
    assert grown("belfry_start_delay_seconds_count") == grown('belfry_tenant_delay_seconds_count{tenant="default"}') == 0
    assert grown('belfry_late_executions_total{cause="ROOM"}') == 1


@pytest.mark.standalone("each node counts for itself")
def test_a_run_that_fails_by_its_step_is_not_belfrys_fault(client, receiver):
    receiver.answer("/gone", Reply(410), Reply(410))
    step = {"name": "a", **receiver.target("/gone")}
    for definition in ({"steps": [step]}, {"steps": [{**step, "map": {"over": [1]}}]}):
        run = client.post("/v1/workflows", {"definition": definition}).json["id"]
        client.wait_for(run, "FAILED")
    now = figures(client)
    assert now['belfry_task_failures_total{fault="belfry"}'] == 0 and now['belfry_task_failures_total{fault="request"}'] == 2


@pytest.mark.standalone("each node counts for itself")
def test_a_lease_that_runs_out_and_a_refused_request_are_not_belfrys_fault(client):
    task = client.create(target_type="WORKER", queue="work")["id"]
    until(lambda: client.post("/v1/leases", {"queue": "work", "wait_seconds": 5, "lease_seconds": 1}).json["leases"], why="nobody leases it")
    until(lambda: "LOST" in [x["status"] for x in client.get(f"/v1/tasks/{task}/executions").json["executions"]], why=lambda: client.task(task))
    assert client.post("/v1/tasks", {"target_type": "NOTHING"}).status == 400
    now = figures(client)
    assert (now['belfry_task_failures_total{fault="belfry"}'], now['belfry_task_failures_total{fault="target"}'], now["belfry_http_errors_total"]) == (0, 1, 0)


@pytest.mark.standalone("each node counts for itself")
def test_tenants_beyond_the_limit_are_summed_up(make_server, receiver):
    """metrics.tenants is 1: the first tenant with something to count has series of its own."""
    server = make_server(env={"BELFRY_METRICS_TENANTS": "1"})
    client, other = server.client(), Tenant(server, "acme")
    client.wait_for(client.create(**receiver.target("/a"))["id"], "COMPLETED")
    assert other.create(delay="0s").status == 201
    until(lambda: figures(client)["belfry_tasks_completed_total"] == 2)
    now = figures(client)
    ended = lambda tenant: now.get(f'belfry_tenant_tasks_total{{tenant="{tenant}",outcome="completed"}}')
    assert (ended("default"), ended("_other"), ended("acme")) == (1, 1, None)
    assert now['belfry_series_folded{kind="tenant"}'] == 1


@pytest.mark.cluster(when="always")
def test_the_leader_tells_how_many_workers_are_wanted(client):
    """6,000 tasks wait, and none has ended: a run is taken for 1 s, so that 100 slots are needed to end them within a minute."""
    tasks = [{"queue": "a", "task_type": "w", "target_type": "WORKER"} for _ in range(6000)]
    assert client.post("/v1/tasks/batch", tasks).status == 201
    until(lambda: of_leader(client).get("belfry_workers_wanted", 0) >= 1, timeout_s=30)
    assert of_leader(client)['belfry_tenant_backlog{tenant="default"}'] == 6000
