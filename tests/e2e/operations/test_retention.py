"""What is over goes when its time is up, and nothing else does."""

import re

import pytest

from server import until

FORGOTTEN = re.compile(r"^belfry_forgotten_total (\d+)$", re.M)


def forgotten(server, client):
    return sum(int(FORGOTTEN.search(client.get("/metrics", node=node).body.decode())[1]) for node in server.nodes)


@pytest.mark.cluster
def test_what_is_over_goes_when_its_retention_is_over(make_server, topology):
    server = make_server(env={"BELFRY_RETENTION_TASKS": "1s", "BELFRY_RETENTION_DLQ": "1h",
                              "BELFRY_RETENTION_INTERVAL": "1s", "BELFRY_RETENTION_EXECUTIONS": "1s",
                              "BELFRY_RETENTION_IDEMPOTENCY_KEYS": "1h"})
    client = server.client()
    noop = {"target_type": "NOOP"}
    waiting = client.post("/v1/tasks", {**noop, "delay": "1h"}).json["id"]
    dead = client.post("/v1/tasks", {"target_type": "HTTP_CALLBACK", "target_config": {"url": "http://127.0.0.1:1/"},
                                     "retry": {"max_attempts": 1}}).json["id"]
    batch = client.post("/v1/tasks/batch", [noop] * 600, key="batch")  # more than upkeep does at a time
    assert batch.status == 201 and batch.json["created"] == 600
    done = [task["id"] for task in batch.json["tasks"]]
    until(lambda: client.get(f"/v1/tasks/{dead}").json["status"] == "FAILED")
    until(lambda: all(client.get(f"/v1/tasks/{task}").status == 404 for task in (done[0], done[300], done[-1])))
    gone = 1201 if topology == "standalone" else 600  # 601 executions: one by one, or by the month
    until(lambda: forgotten(server, client) == gone, why=lambda: f"{forgotten(server, client)} went")
    assert client.get(f"/v1/tasks/{waiting}").json["status"] == "SCHEDULED"
    assert client.get(f"/v1/tasks/{dead}").json["status"] == "FAILED"
    assert client.get("/v1/tasks?status=COMPLETED").json["tasks"] == []
    again = client.post("/v1/tasks/batch", [noop] * 600, key="batch")
    assert (again.status, again.body) == (201, batch.body), "the answer to the key outlives the tasks"
