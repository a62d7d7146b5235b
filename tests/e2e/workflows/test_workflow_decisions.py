"""What users decide over runs and their steps, and what is kept of it: cancelled schedules, steps settled by hand, the history, expiry in paused queues."""

import json
import threading

import pytest

from server import Reply, to_ms, until
from test_workflows_api import act, ended, http, put, run, status, steps

pytestmark = [pytest.mark.tenant, pytest.mark.cluster]
SLOW_RETRY = {"retry": {"max_attempts": 3, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}}
NEAR_RETRY = {"retry": {"max_attempts": 3, "base_delay_ms": 2500, "backoff": "FIXED", "jitter": "NONE"}}


def step(client, run_id, name, kind="STEP"):
    """As soon as the run has it."""
    return until(lambda: steps(client, run_id).get((name, None, kind)))


def decide(client, run_id, name, action, body=None, expect=200):
    return act(client, run_id, f"steps/{name}/{action}", body, expect)


def attempted(client, run_id, name, kind="STEP"):
    return until(lambda: (x := step(client, run_id, name, kind))["attempts"] == 1 and x)


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


def test_runs_that_wait_for_the_one_before_are_cancelled_when_their_schedule_moves(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    put(client, "w", {"steps": [{"name": "a", **http(receiver, "/a")}]})
    made = client.create(name="s", interval_seconds=1, overlap_policy="QUEUE_ALL", target_type="WORKFLOW", target_config={"workflow": "w"})
    receiver.wait("/a")
    waiting = until(lambda: [x for x in client.all(f"/v1/tasks/{made['id']}/occurrences") if x["status"] == "BLOCKED"])
    assert client.request("PATCH", f"/v1/tasks/{made['id']}", {"interval_seconds": 3600}).status == 200
    for x in waiting:
        shown = client.get(f"/v1/workflows/{x['id']}").json
        assert (shown["status"], shown["last_error"]) == ("CANCELLED", "its schedule was edited"), shown
    held.set()


def test_a_step_completed_without_the_output_that_others_refer_to_says_so(client, receiver):
    refers = lambda **more: {"$ref": "/steps/w/output/x", **more}
    steps_ = [{"name": "w", "await": {"signal": "go"}, "compensate": http(receiver, "/undo", body={"$ref": "/output"})},
              {"name": "b", "depends_on": ["w"], **http(receiver, "/b", body=refers(default=1))}, {"name": "c", "depends_on": ["w"], "target_type": "NOOP"}]
    for body, notice in ((None, "it has no output, and these refer to it: 'b', its compensation, the result of the run. A reference without a default fails"),
                         ({"output": {"x": 2}}, None)):
        made = run(client, definition={"steps": steps_, "result": refers(default=3)})["id"]
        until(lambda: status(client, made)["awaiting"])
        assert decide(client, made, "w", "force-complete", body).get("notice") == notice
        assert ended(client, made)["result"] == (2 if body else 3)
    assert [c.body for c in receiver.to("/b")] == [b"1", b"2"]


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


def test_a_failed_step_of_a_run_that_goes_on_names_what_can_be_done(client, receiver):
    held = threading.Event()
    receiver.answer("/bad", Reply(status=400), Reply())
    receiver.answer("/slow", Reply(hold=held))
    made = run(client, definition={"steps": [{"name": "bad", **http(receiver, "/bad")}, {"name": "slow", **http(receiver, "/slow")},
                                             {"name": "after", "depends_on": ["bad"], **http(receiver, "/after")}]})
    until(lambda: step(client, made["id"], "after")["status"] == "SKIPPED")
    wait = "wait until the run has ended, or cancel it; then "
    assert wait + "complete the step" in decide(client, made["id"], "bad", "force-complete", expect=409)["detail"]
    assert wait + "retry the run" in decide(client, made["id"], "bad", "skip", expect=409)["detail"]
    held.set()
    assert ended(client, made["id"])["status"] == "FAILED"
    decide(client, made["id"], "bad", "force-complete")
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert len(receiver.to("/bad")) == 1 and len(receiver.to("/after")) == 1


@pytest.mark.cluster(when="always")
def test_a_step_whose_next_attempt_is_near_runs_now(client, receiver):
    receiver.answer("/a", Reply(status=500), Reply())
    made = run(client, definition={"steps": [{"name": "a", **NEAR_RETRY, **http(receiver, "/a")}]})
    attempted(client, made["id"], "a")
    decide(client, made["id"], "a", "run-now")
    first, second = receiver.wait("/a", 2)[:2]
    assert second.received_ms - first.received_ms < 2300, "it waited for its time"
    assert ended(client, made["id"])["status"] == "COMPLETED"


@pytest.mark.cluster(when="always")
@pytest.mark.own_server
def test_a_task_whose_time_is_near_runs_now(client, receiver):
    made = client.create(name="near", delay="2900ms", **receiver.target("/near"))
    until(lambda: metric(client, "belfry_tasks_armed") > 0)
    client.act(made["id"], "run-now")
    done = client.wait_for(made["id"], "COMPLETED")
    [call] = receiver.to("/near")
    assert call.received_ms - to_ms(made["created_at"]) < 2700, "it waited for its time"
    assert done["attempts"] == 1


@pytest.mark.parametrize("action, state", [("force-complete", "COMPLETED"), ("skip", "SKIPPED")])
@pytest.mark.parametrize("retry", [SLOW_RETRY, NEAR_RETRY], ids=["waits", "claimed"])
def test_a_step_that_is_settled_by_hand_has_nothing_of_the_attempt_before(client, receiver, action, state, retry):
    receiver.answer("/a", Reply(status=503, takes_s=0.2))
    made = run(client, definition={"steps": [{"name": "a", **retry, **http(receiver, "/a")},
                                             {"name": "b", "depends_on": [{"step": "a", "type": "MUST_NOT_FAIL"}], "delay": "3s" if retry is NEAR_RETRY else "0s", **http(receiver, "/b")}]})
    attempted(client, made["id"], "a")
    decide(client, made["id"], "a", action)
    assert ended(client, made["id"])["status"] == "COMPLETED"
    shown = step(client, made["id"], "a")
    assert shown["status"] == state and shown["attempts"] == 1 and shown["by_hand"], shown
    assert shown["last_error"] == (None if state == "COMPLETED" else "skipped by hand"), shown
    assert shown["duration_ms"] is None and shown["settled_by"] == client.server.key.split("_")[1][:len(shown["settled_by"])], shown
    assert len(receiver.to("/a")) == 1, "it was called although a user had settled it"


def test_a_compensation_that_is_completed_by_hand_says_so(client, receiver):
    receiver.answer("/undo", Reply(status=400))
    receiver.answer("/b", Reply(status=400))
    made = run(client, definition={"steps": [{"name": "a", "compensate": http(receiver, "/undo"), **http(receiver, "/a")},
                                             {"name": "b", "depends_on": ["a"], **http(receiver, "/b")}]})
    assert ended(client, made["id"])["compensation"] == "INCOMPLETE"
    decide(client, made["id"], "a", "force-complete")
    until(lambda: client.get(f"/v1/workflows/{made['id']}").json["compensation"] == "COMPLETE")
    undone = step(client, made["id"], "a", "COMPENSATION")
    assert undone["status"] == "COMPLETED" and undone["settled_by"] and undone["last_error"] is None and undone["duration_ms"] is None, undone
    assert step(client, made["id"], "a")["settled_by"] is None


def test_a_run_that_is_being_undone_says_so_and_its_compensations_can_be_decided_on(client, receiver):
    receiver.answer("/undo-a", *[Reply(status=500)] * 2)
    receiver.answer("/undo-m", *[Reply(status=500)] * 2)
    receiver.answer("/b", Reply(status=400))
    later = {"retry": {"max_attempts": 5, "base_delay_ms": 600000, "jitter": "NONE"}}
    made = run(client, definition={"steps": [
        {"name": "a", "compensate": {**later, **http(receiver, "/undo-a")}, **http(receiver, "/a")},
        {"name": "m", "map": {"over": [1, 2]}, "compensate": {**later, **http(receiver, "/undo-m")}, **http(receiver, "/m")},
        {"name": "b", "depends_on": ["a", "m"], **http(receiver, "/b")}]})["id"]
    until(lambda: attempted(client, made, "a", "COMPENSATION") and len(receiver.to("/undo-m")) == 2)
    shown = client.get(f"/v1/workflows/{made}").json
    assert (shown["status"], shown["compensation"], shown["failed_step"]) == ("RUNNING", "RUNNING", "b"), shown
    assert shown["last_error"].startswith("step 'b' is FAILED: HTTP 400"), shown
    explained = client.get(f"/v1/tasks/{made}/explain").json["explanation"]
    assert "it waits for 3 of 3 compensations (step 'b' is FAILED: HTTP 400): 'a' (SCHEDULED for " in explained, explained
    for action in ("retry", "cancel"):
        assert client.post(f"/v1/workflows/{made}/{action}").json["detail"].endswith("wait for its end")
    assert "cannot be skipped" in decide(client, made, "a", "skip", expect=409)["detail"]
    assert "no compensation of the step waits" in decide(client, made, "b", "force-complete", expect=409)["detail"]
    assert decide(client, made, "a", "run-now")["kind"] == "COMPENSATION"
    until(lambda: len(receiver.to("/undo-a")) == 2)
    until(lambda: step(client, made, "a", "COMPENSATION")["attempts"] == 2)
    decide(client, made, "a", "force-complete")
    decide(client, made, "m", "force-complete")
    done = ended(client, made)
    assert (done["status"], done["compensation"]) == ("FAILED", "COMPLETE"), done
    assert len(receiver.to("/undo-a")) == 2 and len(receiver.to("/undo-m")) == 2


@pytest.mark.parametrize("delay_ms", [2000, 600000])
def test_a_step_that_is_a_workflow_takes_decisions_between_its_attempts(client, receiver, delay_ms):
    receiver.answer("/k", *[Reply(status=400)] * 3, Reply())
    put(client, "inner", {"steps": [{"name": "k", **http(receiver, "/k")}]})
    retry = {"retry": {"max_attempts": 3, "base_delay_ms": delay_ms, "backoff": "FIXED", "jitter": "NONE"}}
    sub = {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}, **retry}
    last = {"name": "last", "depends_on": [{"step": "sub", "type": "MUST_FINISH"}], **http(receiver, "/last", body={"got": {"$ref": "/steps/sub/output", "default": 0}})}
    completed, skipped, again = (run(client, definition={"steps": [sub, last]})["id"] for _ in range(3))
    for made in (completed, skipped, again):
        waits = attempted(client, made, "sub")
        assert waits["status"] == "SCHEDULED" and waits["due_at"], waits
    assert decide(client, completed, "sub", "force-complete", {"output": {"x": 1}})["status"] == "COMPLETED"
    assert decide(client, skipped, "sub", "skip")["status"] == "SKIPPED"
    decide(client, again, "sub", "run-now")
    assert [ended(client, made)["status"] for made in (completed, skipped, again)] == ["COMPLETED"] * 3
    assert len(receiver.to("/k")) == 4 and {"got": {"x": 1}} in [json.loads(c.body) for c in receiver.to("/last")]


def test_a_run_between_its_attempts_says_when_the_next_comes(client, receiver):
    receiver.answer("/k", Reply(status=400))
    made = run(client, definition={"steps": [{"name": "k", **http(receiver, "/k")}]}, retry={"max_attempts": 2, "base_delay_ms": 600000, "jitter": "NONE"})["id"]
    assert made and client.get(f"/v1/workflows/{made}").json["due_at"] is None
    shown = until(lambda: (x := client.get(f"/v1/workflows/{made}").json)["due_at"] and x)
    assert shown["status"] == "RUNNING" and to_ms(shown["due_at"]) > to_ms(shown["started_at"]) + 500000, shown
    act(client, made, "cancel")
    assert client.get(f"/v1/workflows/{made}").json["due_at"] is None


def test_a_step_of_a_completed_run_is_refused_with_what_is_possible(client):
    made = run(client, definition={"steps": [{"name": "a", "target_type": "NOOP"}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"}]})["id"]
    assert ended(client, made)["status"] == "COMPLETED"
    for action in ("skip", "force-complete", "run-now"):
        assert decide(client, made, "b", action, expect=409)["detail"] == f"the run is COMPLETED; rerun it from that step: belfry workflow rerun {made} --from b"
    again = act(client, made, "rerun", {"from": "b"}, expect=201)["id"]
    assert ended(client, again)["status"] == "COMPLETED"


def test_a_user_starts_a_step_of_a_paused_run(client, receiver):
    late = {"delay": "1h"}
    made = run(client, definition={"steps": [
        {"name": "call", **late, **http(receiver, "/call")}, {"name": "leased", **late, "target_type": "WORKER", "queue": "jobs"},
        {"name": "map", **late, "map": {"over": [1]}, **http(receiver, "/item")}]})["id"]
    until(lambda: step(client, made, "map")["status"] == "SCHEDULED")
    assert "notice" not in decide(client, made, "call", "run-now")
    receiver.wait("/call")
    act(client, made, "pause")
    for name, text in (("leased", "starts all the same"), ("map", "what it opens waits for the resume")):
        assert decide(client, made, name, "run-now")["notice"].endswith(text)
    lease = until(lambda: client.post("/v1/leases", {"queue": "jobs", "max": 1, "wait_seconds": 5}).json["leases"])[0]
    assert client.post(f"/v1/leases/{lease['id']}/complete", {}).status == 200
    until(lambda: steps(client, made).get(("map", 0, "ITEM"), {}).get("status") == "PAUSED")
    assert not receiver.to("/item")
    act(client, made, "resume")
    assert ended(client, made)["status"] == "COMPLETED" and len(receiver.to("/item")) == 1


@pytest.mark.parametrize("how", ["replace", "edit", "target"])
def test_a_signal_for_one_input_does_not_count_for_another(client, how):
    definition = {"steps": [{"name": "w", "await": {"signal": "go"}}], "result": {"$ref": "/input/amount"}}
    fields = {"definition": definition, "dedupe_key": "pay", "dedupe_window_seconds": 3600}
    made = run(client, delay="1h", input={"amount": 10}, **fields)
    sent = client.post(f"/v1/workflows/{made['id']}/signals/go", {"payload": {"ok": 10}})
    assert sent.status == 200, sent
    if how == "replace":
        again = client.post("/v1/workflows", {**fields, "delay": "30m", "input": {"amount": 77}, "dedupe_action": "REPLACE"})
        assert again.status == 200 and again.json["id"] == made["id"], again
    else:
        config = client.get(f"/v1/tasks/{made['id']}").json["target_config"]
        changes = [{"target_type": "NOOP", "target_config": None}] if how == "target" else []
        for change in changes + [{"target_type": "WORKFLOW", "target_config": {**config, "input": {"amount": 77}}}]:
            patched = client.request("PATCH", f"/v1/tasks/{made['id']}", change)
            assert patched.status == 200, patched
    assert client.post(f"/v1/tasks/{made['id']}/run-now").status == 200
    awaited = until(lambda: status(client, made["id"])["awaiting"])
    assert awaited[0]["received"] == 0, awaited
    assert client.post(f"/v1/workflows/{made['id']}/signals/go", {"payload": {"ok": 77}}).status == 200
    assert ended(client, made["id"])["result"] == 77


def test_a_failed_step_that_a_retry_completes_names_who_did_it(client, receiver):
    receiver.answer("/a", Reply(status=400))
    made = run(client, definition={"steps": [{"name": "a", "metadata": {"team": "x"}, **http(receiver, "/a")}]})
    assert ended(client, made["id"])["status"] == "FAILED"
    decide(client, made["id"], "a", "force-complete", {"output": {"x": 1}})
    assert ended(client, made["id"])["status"] == "COMPLETED"
    shown = step(client, made["id"], "a")
    assert shown["settled_by"] and json.loads(shown["output"]) == {"x": 1} and shown["last_error"] is None, shown


@pytest.mark.cluster(when="always")
@pytest.mark.own_server
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


@pytest.mark.own_server
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


def test_a_second_cancel_gets_the_answer_of_the_first(client):
    made = run(client, definition={"steps": [{"name": "a", "await": {"signal": "go"}}]})
    until(lambda: step(client, made["id"], "a")["status"] == "BLOCKED")
    for _ in range(2):
        assert act(client, made["id"], "cancel")["status"] == "CANCELLED"
    done = run(client, definition={"steps": [{"name": "a", "target_type": "NOOP"}]})
    assert ended(client, done["id"])["status"] == "COMPLETED"
    act(client, done["id"], "cancel", expect=409)


def undone_inside(client, receiver):
    put(client, "inner", {"steps": [{"name": "k1", "compensate": http(receiver, "/undo"), **http(receiver, "/k1")},
                                    {"name": "k2", "depends_on": ["k1"], **http(receiver, "/k2")}]})
    return {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}


def calls(receiver):
    return [len(receiver.to(path)) for path in ("/k1", "/k2", "/undo")]


@pytest.mark.parametrize("more", [{}, {"map": {"over": [1]}}], ids=["step", "map"])
def test_the_next_attempt_of_a_step_that_is_a_workflow_finds_nothing_undone(client, receiver, more):
    receiver.answer("/k2", Reply(status=400), Reply())
    made = run(client, definition={"steps": [{**undone_inside(client, receiver), **more, "retry": {"max_attempts": 2, "base_delay_ms": 100}}]})
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert calls(receiver) == [1, 2, 0]


def test_a_run_is_not_retried_by_itself_when_a_workflow_within_it_was_undone(client, receiver):
    receiver.answer("/k2", Reply(status=400), Reply())
    receiver.answer("/undo-outer", Reply())
    sub = undone_inside(client, receiver)
    made = run(client, retry={"max_attempts": 3, "base_delay_ms": 100}, definition={"steps": [
        {"name": "first", "compensate": http(receiver, "/undo-outer"), "target_type": "NOOP"}, {**sub, "depends_on": ["first"]}]})
    done = ended(client, made["id"])
    assert (done["status"], done["attempts"], done["compensation"]) == ("FAILED", 1, "COMPLETE"), done
    assert calls(receiver) == [1, 1, 1] and len(receiver.to("/undo-outer")) == 1


def test_a_workflow_that_may_fail_and_was_undone_keeps_no_run_from_its_retry(client, receiver):
    receiver.answer("/k2", Reply(status=400))
    receiver.answer("/flaky", Reply(status=400), Reply())
    made = run(client, retry={"max_attempts": 2, "base_delay_ms": 100}, definition={"steps": [
        {**undone_inside(client, receiver), "may_fail": True}, {"name": "flaky", **http(receiver, "/flaky")}]})
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert calls(receiver) == [1, 1, 1] and len(receiver.to("/flaky")) == 2


def test_a_run_that_was_undone_at_its_deadline_has_no_further_attempt(client, receiver):
    receiver.answer("/k2", Reply(takes_s=2))
    undone_inside(client, receiver)
    made = run(client, workflow="inner", deadline_seconds=1, retry={"max_attempts": 3, "base_delay_ms": 100})
    done = ended(client, made["id"])
    assert (done["status"], done["attempts"], done["compensation"]) == ("FAILED", 1, "COMPLETE") and "deadline" in done["last_error"], done
