"""Metrics that concern all nodes together."""

import re

import pytest

from server import until


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
    assert not any(re.search('queue="c"', name) for name in now) and now["belfry_queue_depth_age_seconds"] < 20
    assert len(client.post("/v1/leases", {"worker": "one", "queue": "a", "max": 10}).json["leases"]) == 10
    until(lambda: depth(client) == 1990, timeout_s=20, why=lambda: f"the depth is {depth(client)}")
