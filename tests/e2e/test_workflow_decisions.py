"""What users decide over runs and their steps, and what is kept of it: cancelled schedules, steps settled by hand, the history, expiry in paused queues."""

import json
import threading

import pytest

from server import Reply, to_ms, until
from test_workflows_api import act, ended, http, put, run, steps

pytestmark = pytest.mark.cluster
SLOW_RETRY = {"retry": {"max_attempts": 3, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}}
NEAR_RETRY = {"retry": {"max_attempts": 3, "base_delay_ms": 2500, "backoff": "FIXED", "jitter": "NONE"}}


def step(client, run_id, name, kind="STEP"):
    """As soon as the run has it."""
    return until(lambda: steps(client, run_id).get((name, None, kind)))


def decide(client, run_id, name, action, body=None, expect=200):
    return act(client, run_id, f"steps/{name}/{action}", body, expect)


def attempted(client, run_id, name):
    return until(lambda: (x := step(client, run_id, name))["attempts"] == 1 and x)


def metric(client, name):
    return sum(float(line.split()[1]) for node in client.server.nodes for line in client.get("/metrics", node=node).body.decode().splitlines()
               if line.startswith(f"{name} "))


def test_runs_that_wait_for_the_one_before_are_cancelled_with_their_schedule(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    put(client, "w", {"steps": [{"name": "a", **http(receiver, "/a")}]})
    made = client.create(name="s", interval_seconds=1, overlap_policy="QUEUE_ALL", target_type="WORKFLOW", target_config={"workflow": "w"})
    receiver.wait("/a")
    waiting = until(lambda: [x for x in client.all(f"/v1/tasks/{made['id']}/occurrences") if x["status"] == "BLOCKED"])
    client.act(made["id"], "cancel")
    for x in waiting:
        shown = client.get(f"/v1/workflows/{x['id']}").json
        assert (shown["status"], shown["last_error"]) == ("CANCELLED", "its schedule was cancelled"), shown
    held.set()


def test_a_step_in_a_paused_queue_expires_and_its_handler_runs(client, receiver):
    assert client.request("PUT", "/v1/queues/still", {}).status in (200, 201)
    assert client.request("PATCH", "/v1/queues/still", {"paused": True}).status == 200
    put(client, "inner", {"steps": [{"name": "x", "target_type": "NOOP"}]})
    made = run(client, definition={"steps": [
        {"name": "plain", "queue": "still", "expires_after_seconds": 1, **http(receiver, "/still")},
        {"name": "planned", "queue": "still", "expires_after_seconds": 1, **http(receiver, "/still", body={"$ref": "/input"})},
        {"name": "sub", "queue": "still", "expires_after_seconds": 1, "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}},
        *({"name": f"late-{x}", "depends_on": [{"step": x, "type": "MUST_FAIL"}], **http(receiver, f"/late-{x}")} for x in ("plain", "planned", "sub"))]})
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and not receiver.to("/still"), done
    for name in ("plain", "planned", "sub"):
        assert step(client, made["id"], name)["status"] == "EXPIRED" and len(receiver.to(f"/late-{name}")) == 1


@pytest.mark.cluster(when="always")
def test_a_task_whose_time_is_near_runs_now(client, receiver):
    made = client.create(name="near", delay="2900ms", **receiver.target("/near"))
    until(lambda: metric(client, "belfry_tasks_armed") > 0)
    client.act(made["id"], "run-now")
    done = client.wait_for(made["id"], "COMPLETED")
    [call] = receiver.to("/near")
    assert call.received_ms - to_ms(made["created_at"]) < 2700, "it waited for its time"
    assert done["attempts"] == 1


@pytest.mark.cluster(when="always")
def test_the_history_of_what_was_cancelled_says_so(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    before = metric(client, "belfry_tasks_failed_total")
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})
    task = client.create(name="t", **receiver.target("/a"))
    receiver.wait("/a", 2)
    client.post(f"/v1/workflows/{made['id']}/cancel")
    client.post(f"/v1/tasks/{task['id']}/cancel")
    assert ended(client, made["id"])["status"] == "CANCELLED"
    client.wait_for(task["id"], "CANCELLED")
    held.set()
    for task_id in (made["id"], task["id"], step(client, made["id"], "a")["id"]):
        history = client.get(f"/v1/tasks/{task_id}/executions").json["executions"]
        assert [x["status"] for x in history] == ["CANCELLED"], history
    assert [x["task_id"] for x in client.get(f"/v1/tasks/{task['id']}/executions?status=CANCELLED").json["executions"]] == [task["id"]]
    assert metric(client, "belfry_tasks_failed_total") == before


def test_a_failure_that_a_cancelled_run_takes_in_is_not_counted_as_retried_or_failed(client, receiver):
    held = threading.Event()
    made = run(client, definition={"steps": [{"name": "a", "target_type": "WORKER", "queue": "jobs", **SLOW_RETRY}]})
    lease = until(lambda: client.post("/v1/leases", {"queue": "jobs", "max": 1, "wait_seconds": 5}).json["leases"])[0]
    before = [metric(client, f"belfry_tasks_{x}_total") for x in ("failed", "retried")]
    client.post(f"/v1/workflows/{made['id']}/cancel")
    answer = client.post(f"/v1/leases/{lease['id']}/fail", {"error": "no"})
    assert answer.json["status"] == "CANCELLED", answer
    assert [metric(client, f"belfry_tasks_{x}_total") for x in ("failed", "retried")] == before
    held.set()
