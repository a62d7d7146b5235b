"""GET /v1/stats: what the nodes count is there minute by minute, and equals their metrics."""

import sqlite3

import pytest

from server import Reply, at, now_ms, until
from test_metrics import figures
from test_tenants import Tenant

MINUTE = 60_000
COUNTED = {"created": "belfry_tasks_scheduled_total", "executed": "belfry_tasks_executed_total", "completed": "belfry_tasks_completed_total",
           "failed": "belfry_tasks_failed_total", "retried": "belfry_task_retries_total", "lost": "belfry_tasks_recovered_total",
           "skipped": "belfry_runs_skipped_total", "expired": "belfry_tasks_expired_total", "claimed": "belfry_tasks_claimed_total"}


def lately(tenant=None, who=None, **more):
    """The figures of the last minutes, with those of the minute that is not over."""
    query = {"from": at(now_ms() - 10 * MINUTE), "to": at(now_ms()), "step": "1m", **more, **({"tenant": tenant} if tenant else {})}
    answer = who("/v1/stats?" + "&".join(f"{name}={value}" for name, value in query.items()))
    assert answer.status == 200, answer
    return answer.json


def total(points, figure):
    return sum(point[figure] for point in points["points"])


def nodes_of(server):
    return getattr(server, "nodes", [server])


@pytest.mark.cluster(when="always")
def test_the_sums_equal_the_metrics_of_all_nodes(make_server, receiver):
    """Two tenants succeed, fail, retry and let occurrences be skipped; then all nodes stop, which writes the last minute."""
    server = make_server()
    client, acme = server.client(), Tenant(server, "acme")
    receiver.answer("/gone", Reply(410))
    receiver.answer("/busy", Reply(503), Reply(200))
    quick = {"base_delay_ms": 50, "jitter": "NONE"}
    made = [client.create(retry=quick, **receiver.target(path))["id"] for path in ("/good", "/gone", "/busy")]
    theirs = [acme.create(delay="0s").json["id"] for _ in range(5)]
    assert client.post("/v1/tasks", {"target_type": "NOOP", "delay": "1d"}).status == 201
    for task, state in zip(made, ("COMPLETED", "FAILED", "COMPLETED")):
        client.wait_for(task, state)
    for task in theirs:
        until(lambda task=task: acme.request("GET", f"/v1/tasks/{task}").json["status"] == "COMPLETED")

    counted = lambda: [figures_at(client, node) for node in nodes_of(server)]
    until(lambda: sum(each["belfry_tasks_completed_total"] for each in counted()) == 7)
    metrics = counted()
    of = lambda name: sum(each[name] for each in metrics)
    server.stop()
    client = server.start().client()
    everything = lately("*", client.get)
    assert {figure: total(everything, figure) for figure in COUNTED} == {figure: of(name) for figure, name in COUNTED.items()}
    delays = [point["delay_seconds"] for point in everything["points"]]
    assert sum(d["count"] for d in delays) == of("belfry_start_delay_seconds_count") == 8
    assert sum(d["sum"] for d in delays) == pytest.approx(of("belfry_start_delay_seconds_sum"), abs=0.001)
    assert sum(p["run_seconds"]["sum"] for p in everything["points"]) == pytest.approx(of("belfry_run_seconds_total"), abs=0.001)
    assert all(0 <= d["p50"] <= d["p95"] <= d["p99"] <= 60 for d in delays)
    own, other = lately(who=client.get), lately(who=lambda path: acme.request("GET", path))
    assert (own["tenant"], other["tenant"], everything["tenant"]) == ("default", "acme", "*")
    assert (total(own, "completed"), total(own, "failed"), total(own, "retried"), total(other, "completed")) == (2, 1, 1, 5)
    for figure in ("created", "executed", "completed", "failed", "retried", "expired"):
        assert total(own, figure) + total(other, figure) == total(everything, figure)
    assert lately("acme", client.get) == other and "claimed" not in other["points"][0]


def figures_at(client, node):
    class Here:
        get = staticmethod(lambda path: client.get(path, node=node))
    return figures(Here)


@pytest.mark.text("scopes are checked by the node that answers")
def test_who_may_ask_for_what(server, client):
    """A tenant sees itself alone; the range is cut into whole minutes, and gaps are zeros."""
    acme = Tenant(server, "acme", scopes=("status:read",))
    ask = lambda path: acme.request("GET", path)
    assert ask("/v1/stats").status == ask("/v1/stats?tenant=acme").status == 200
    for tenant in ("default", "*", "_other", "nobody"):
        assert ask(f"/v1/stats?tenant={tenant}").status == 404
    assert Tenant(server, "blind", scopes=("tasks:read",)).request("GET", "/v1/stats").status == 403
    assert client.get("/v1/stats?tenant=_other").json["tenant"] == "_other" and client.get("/v1/stats?tenant=nobody").status == 404
    for wrong in ("step=90s", "step=0m", "step=x", "step=1m&from=2026-01-01T00:00:00Z&to=2026-01-01T16:41:00Z", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z"):
        assert client.get(f"/v1/stats?{wrong}").status == 400, wrong
    got = client.get("/v1/stats?from=2026-01-01T00:00:30Z&to=2026-01-01T01:00:30Z&step=20m").json
    assert (got["from"], got["to"], got["step_seconds"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T01:01:00.000Z", 1200)
    assert [point["at"][11:16] for point in got["points"]] == ["00:00", "00:20", "00:40", "01:00"]
    assert all(point["created"] == 0 == point["delay_seconds"]["p99"] for point in got["points"])
    assert len(client.get("/v1/stats?from=2026-01-01T00:00:00Z&to=2026-01-08T00:00:00Z").json["points"]) == 7 * 96
    assert len(client.get("/v1/stats").json["points"]) == 60


@pytest.mark.standalone("it sets the clock")
def test_a_minute_is_written_at_its_end_and_a_killed_node_loses_its_own(make_server, clock):
    clock.jump(int(MINUTE - 8000 - clock.now_ms() % MINUTE))
    minute = clock.now_ms() // MINUTE * MINUTE
    server = make_server(env=clock.env)
    client = server.client()
    client.wait_for(client.create(target_type="NOOP")["id"], "COMPLETED")
    ask = lambda: client.get(f"/v1/stats?from={at(minute)}&to={at(minute + 5 * MINUTE)}&tenant=*").json
    until(lambda: total(ask(), "completed") == 1)
    assert clock.now_ms() >= minute + MINUTE and [p["completed"] for p in ask()["points"]] == [1, 0, 0, 0, 0]
    client.wait_for(client.create(target_type="NOOP")["id"], "COMPLETED")
    server.kill()
    client = server.start().client()
    assert total(ask(), "completed") == 1


@pytest.mark.standalone("it reads the database")
def test_a_server_that_does_nothing_writes_nothing(make_server):
    server = make_server()
    client = server.client()
    assert client.get("/v1/tasks").status == 200
    server.stop()
    database = sqlite3.connect(server.data_dir / "belfry.db")
    assert database.execute("SELECT count(*) FROM stats").fetchone() == (0,)
    client = server.start().client()
    client.create(target_type="NOOP", delay="1d")
    server.stop()
    rows = database.execute("SELECT tenant_id, created, requests FROM stats ORDER BY tenant_id").fetchall()
    assert [(tenant, created) for tenant, created, _ in rows] == [(0, 1), (1, 1)] and rows[0][2] >= 1
