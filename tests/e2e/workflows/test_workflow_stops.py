"""What a stop, a pause or a deadline of a run means for what runs, waits for its next attempt or undoes, with the receiver as oracle."""

import concurrent.futures
import threading
import time

import pytest

from cluster import LONG
from server import Reply, at, now_ms, until
from test_next import instant_ms
from test_workflows_api import act, ended, http, put, run, status, steps

pytestmark = pytest.mark.tenant

RETRIES = {"retry": {"max_attempts": 5, "base_delay_ms": 1000, "backoff": "FIXED", "jitter": "NONE"}}


def cancel(client, run_id, body=None):
    """Until nothing of it runs."""
    answers = []

    def is_cancelled():
        answers.append(client.post(f"/v1/workflows/{run_id}/cancel", body))
        return answers[-1].status == 200

    until(is_cancelled, why=lambda: f"{answers[-1]}")


def test_a_step_that_is_between_two_attempts_is_cancelled_with_its_run(client, receiver):
    receiver.answer("/a", Reply(status=500))
    made = run(client, definition={"steps": [{"name": "a", **RETRIES, **http(receiver, "/a")}]})
    receiver.wait("/a")
    until(lambda: steps(client, made["id"])[("a", None, "STEP")]["attempts"] == 1)
    cancel(client, made["id"])
    seen = len(receiver.to("/a"))
    assert ended(client, made["id"])["status"] == "CANCELLED"
    assert len(receiver.to("/a")) == seen


def history(client, task):
    return [(x["attempt_number"], x["status"]) for x in client.get(f"/v1/tasks/{task}/executions").json["executions"]]


@pytest.mark.cluster(when="always")
def test_what_is_cancelled_before_its_call_leaves_no_attempt(client, receiver):
    """A step on the wheel for its next attempt, and a task on the wheel for its first one."""
    receiver.answer("/a", Reply(status=500))
    made = run(client, definition={"steps": [{"name": "a", **RETRIES, **http(receiver, "/a", body={"$ref": "/run/id"})}]})["id"]
    task = client.create(target_config={"url": receiver.url("/b")}, run_at=at(now_ms() + 5000))["id"]
    receiver.wait("/a")  # of a run that is yet to be opened, no step is listed
    until(lambda: steps(client, made)[("a", None, "STEP")]["attempts"] == 1)
    cancel(client, made)
    assert client.act(task, "cancel")["status"] == "CANCELLED"
    assert ended(client, made)["status"] == "CANCELLED"
    step = steps(client, made)[("a", None, "STEP")]
    assert (step["status"], step["attempts"], history(client, step["id"])) == ("CANCELLED", 1, [(1, "FAILED")]), step
    shown = client.get(f"/v1/tasks/{task}").json
    assert (shown["attempts"], shown["started_at"], history(client, task)) == (0, None, []), shown
    assert not receiver.to("/b")


@pytest.mark.cluster(when="always")
def test_an_item_whose_map_fails_before_its_next_attempt_has_only_the_first(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(status=500))
    receiver.answer("/b", Reply(status=400, hold=held))
    paths = [receiver.url("/a"), receiver.url("/b")]
    host = paths[0].rsplit("/", 1)[0]
    made = run(client, definition={"steps": [{"name": "m", "map": {"over": ["a", "b"]}, **RETRIES,
                                              "target_config": {"url": {"$join": [f"{host}/", {"$ref": "/item"}]}}}]})["id"]
    receiver.wait("/b")
    until(lambda: steps(client, made)[("m", 0, "ITEM")]["attempts"] == 1)
    held.set()
    assert ended(client, made)["status"] == "FAILED"
    item = steps(client, made)[("m", 0, "ITEM")]
    assert (item["status"], item["attempts"], history(client, item["id"])) == ("CANCELLED", 1, [(1, "FAILED")]), item
    assert len(receiver.to("/a")) == 1


@pytest.mark.cluster(when="always")
def test_a_step_that_fails_after_its_run_was_paused_waits_for_the_resume(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(status=500, hold=held), Reply())
    made = run(client, definition={"steps": [{"name": "a", **RETRIES, **http(receiver, "/a")}]})
    receiver.wait("/a")
    act(client, made["id"], "pause")
    held.set()
    until(lambda: steps(client, made["id"])[("a", None, "STEP")]["status"] == "PAUSED",
          why=lambda: f"it is {steps(client, made['id'])[('a', None, 'STEP')]}")
    assert len(receiver.to("/a")) == 1
    act(client, made["id"], "resume")
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert len(receiver.to("/a")) == 2


def test_a_step_that_fails_after_the_deadline_of_its_run_is_not_tried_again(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(status=500, hold=held))
    made = run(client, deadline_seconds=1, definition={"steps": [{"name": "a", **RETRIES, **http(receiver, "/a")}]})
    receiver.wait("/a")
    until(lambda: client.get(f"/v1/workflows/{made['id']}").json["stopped_by"])
    held.set()
    done = ended(client, made["id"])
    assert done["status"] == "FAILED" and "deadline" in done["last_error"], done
    assert len(receiver.to("/a")) == 1


def test_a_leased_step_that_fails_after_its_run_was_cancelled_is_not_leased_again(client):
    made = run(client, definition={"steps": [{"name": "a", "target_type": "WORKER", "queue": "jobs", "retry": {"max_attempts": 5, "base_delay_ms": 100}}]})
    lease = until(lambda: client.post("/v1/leases", {"queue": "jobs", "max": 1, "wait_seconds": 5}).json["leases"])[0]
    assert client.post(f"/v1/workflows/{made['id']}/cancel").status in (200, 202)
    client.post(f"/v1/leases/{lease['id']}/fail", {"error": "no"})
    assert ended(client, made["id"])["status"] == "CANCELLED"
    assert client.post("/v1/leases", {"queue": "jobs", "max": 1, "wait_seconds": 1}).json["leases"] == []


def test_a_run_that_waits_for_its_next_attempt_is_cancelled(client, receiver):
    receiver.answer("/a", Reply(status=400))
    made = run(client, retry={"max_attempts": 3, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})
    until(lambda: client.get(f"/v1/workflows/{made['id']}").json["attempts"] == 1)
    act(client, made["id"], "cancel")
    assert ended(client, made["id"])["status"] == "CANCELLED"
    assert len(receiver.to("/a")) == 1


def undone_between_attempts(client, receiver):
    """A step that is a workflow: its next attempt is far, and its last one has done what can be undone."""
    receiver.answer("/k2", Reply(status=400))
    put(client, "inner", {"steps": [{"name": "k1", "compensate": http(receiver, "/undo"), **http(receiver, "/k1")},
                                    {"name": "k2", "depends_on": ["k1"], **http(receiver, "/k2")}]})
    return {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"},
            "retry": {"max_attempts": 2, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}}


@pytest.mark.parametrize("items", [0, 2], ids=["step", "map"])
@pytest.mark.parametrize("stop", ["cancel", "paused", "deadline"])
def test_a_workflow_between_its_attempts_undoes_what_it_did_when_it_is_stopped(client, receiver, stop, items):
    sub = {**undone_between_attempts(client, receiver), **({"map": {"over": [1] * items}} if items else {})}
    more = {"deadline_seconds": 2} if stop == "deadline" else {}
    made = run(client, definition={"steps": [sub]}, **more)
    rows = lambda: [s for s in steps(client, made["id"]).values() if not items or s["item"] is not None]
    until(lambda: rows() and all(s["status"] == "SCHEDULED" and s["attempts"] == 1 for s in rows()))
    if stop == "paused":
        act(client, made["id"], "pause")
    if stop != "deadline":
        cancel(client, made["id"], {"compensate": True})
    assert ended(client, made["id"])["status"] == ("FAILED" if stop == "deadline" else "CANCELLED")
    assert (len(receiver.to("/k1")), len(receiver.to("/k2")), len(receiver.to("/undo"))) == (items or 1, items or 1, items or 1)


def test_items_that_are_workflows_undo_what_they_did_when_their_map_fails(client, receiver):
    sub = {**undone_between_attempts(client, receiver), "map": {"over": [1, 2]}}
    made = run(client, definition={"steps": [sub]})["id"]
    rows = lambda: [s for s in steps(client, made).values() if s["item"] is not None]
    until(lambda: len(rows()) == 2 and all(s["status"] == "SCHEDULED" and s["attempts"] == 1 for s in rows()))
    act(client, made, "steps/sub/run-now", {"item": 0})
    assert ended(client, made)["status"] == "FAILED"
    assert sorted(s["status"] for s in rows()) == ["CANCELLED", "FAILED"]
    assert len(receiver.to("/undo")) == 2


@pytest.mark.parametrize("paused", [False, True], ids=["waits", "paused"])
def test_the_deadline_of_a_run_holds_for_all_its_attempts(client, receiver, paused):
    receiver.answer("/a", Reply(status=400))
    made = run(client, deadline_seconds=2, retry={"max_attempts": 3, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})
    until(lambda: client.get(f"/v1/workflows/{made['id']}").json["attempts"] == 1)
    deadline = client.get(f"/v1/workflows/{made['id']}").json["deadline_at"]
    if paused:
        act(client, made["id"], "pause")
    done = ended(client, made["id"])
    assert (done["status"], done["deadline_at"]) == ("FAILED", deadline) and "deadline" in done["last_error"], done
    assert 0 <= instant_ms(done["completed_at"]) - instant_ms(deadline) < 1500
    assert len(receiver.to("/a")) == 1


def test_a_later_attempt_of_a_run_has_the_same_deadline(client, receiver):
    receiver.answer("/a", Reply(status=400), Reply(takes_s=5))
    made = run(client, deadline_seconds=2, retry={"max_attempts": 3, "base_delay_ms": 500, "backoff": "FIXED"}, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})
    deadline = until(lambda: client.get(f"/v1/workflows/{made['id']}").json["deadline_at"])
    done = ended(client, made["id"])
    assert (done["status"], done["deadline_at"]) == ("FAILED", deadline) and "deadline" in done["last_error"], done
    assert len(receiver.to("/a")) == 2


def test_a_run_that_waits_for_its_next_attempt_is_started_by_a_retry(client, receiver):
    receiver.answer("/a", Reply(status=400), Reply(status=400), Reply())
    slow = {"max_attempts": 3, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}
    made = run(client, retry=slow, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})["id"]
    until(lambda: client.get(f"/v1/workflows/{made}").json["attempts"] == 1)
    assert f"/v1/workflows/{made}/retry" in act(client, made, "steps/a/force-complete", expect=409)["detail"]
    run_at = client.get(f"/v1/workflows/{made}").json["run_at"]
    act(client, made, "retry")
    until(lambda: client.get(f"/v1/workflows/{made}").json["attempts"] == 2)
    assert client.post(f"/v1/tasks/{made}/run-now").status == 200
    done = ended(client, made)
    assert (done["status"], done["attempts"], done["run_at"]) == ("COMPLETED", 3, run_at) and len(receiver.to("/a")) == 3


def test_a_run_within_another_that_waits_for_its_next_attempt_names_what_starts_it(client, receiver):
    made = run(client, definition={"steps": [undone_between_attempts(client, receiver)]})["id"]
    sub = until(lambda: (s := steps(client, made).get(("sub", None, "STEP"))) and s["attempts"] == 1 and s)
    assert f"/v1/workflows/{made}/steps/sub/run-now" in act(client, sub["id"], "retry", expect=409)["detail"]
    assert f"/v1/workflows/{made}/steps/sub/run-now" in act(client, sub["id"], "steps/k2/force-complete", expect=409)["detail"]
    act(client, made, "steps/sub/run-now")
    assert ended(client, made)["status"] == "FAILED"


def test_a_paused_run_that_ended_is_not_paused_after_a_retry(client, receiver):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}]})["id"]
    until(lambda: status(client, made)["awaiting"])
    act(client, made, "pause")
    cancel(client, made)
    assert ended(client, made)["status"] == "CANCELLED"
    assert act(client, made, "retry")["paused"] is False
    assert client.get(f"/v1/workflows/{made}").json["paused"] is False
    cancel(client, made)


def test_a_cancel_with_nothing_to_undo_is_answered_at_its_end(client):
    definition = {"steps": [{"name": "w", "await": {"signal": "go"}, "compensate": {"target_type": "NOOP"}}]}
    made = run(client, definition=definition)["id"]
    until(lambda: status(client, made)["awaiting"])
    answer = act(client, made, "cancel", {"compensate": True})
    assert (answer["status"], answer["compensation"]) == ("CANCELLED", None), answer


def test_a_step_that_is_open_runs_already_and_is_not_completed(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    made = run(client, definition={"steps": [{"name": "m", "map": {"over": [1]}, **http(receiver, "/a")}]})["id"]
    receiver.wait("/a")
    for body in ({}, {"force": True}):
        assert "runs already" in act(client, made, "steps/m/run-now", body, 409)["detail"]
    assert "cancel the run" in act(client, made, "steps/m/force-complete", {}, 409)["detail"]
    held.set()
    assert ended(client, made)["status"] == "COMPLETED"


def test_a_run_that_failed_and_was_undone_is_rerun(client, receiver):
    receiver.answer("/fails", Reply(status=400))
    made = run(client, definition={"steps": [{"name": "a", "target_type": "NOOP", "compensate": {"target_type": "NOOP"}},
                                             {"name": "fails", "depends_on": ["a"], **http(receiver, "/fails")}]})["id"]
    assert ended(client, made)["compensation"] == "COMPLETE"
    assert "rerun it" in act(client, made, "resume", expect=409)["detail"]


def test_a_run_is_attempted_as_often_as_it_was_told(client, receiver):
    receiver.answer("/b", Reply(status=400), Reply(status=400), Reply())
    made = run(client, retry={"max_attempts": 3, "base_delay_ms": 100}, definition={"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "b", "depends_on": ["a"], **http(receiver, "/b")}]})
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert (len(receiver.to("/a")), len(receiver.to("/b"))) == (1, 3)


def undo_that_waits(receiver):
    """A run that fails, and whose compensation comes to its second attempt after a second."""
    receiver.answer("/fails", Reply(status=400))
    receiver.answer("/undo", Reply(status=500), Reply())
    return {"steps": [{"name": "a", **http(receiver, "/a"), "compensate": {**RETRIES, **http(receiver, "/undo")}},
                      {"name": "fails", "depends_on": ["a"], **http(receiver, "/fails")}]}


def test_a_deadline_does_not_end_the_compensation(client, receiver):
    made = run(client, deadline_seconds=1, definition=undo_that_waits(receiver))
    receiver.wait("/undo")
    done = ended(client, made["id"])
    assert (done["status"], done["failed_step"], done["compensation"]) == ("FAILED", "fails", "COMPLETE"), done
    assert len(receiver.to("/undo")) == 2


def test_a_cancel_does_not_end_the_compensation(client, receiver):
    made = run(client, definition=undo_that_waits(receiver))
    receiver.wait("/undo")
    until(lambda: steps(client, made["id"])[("a", None, "COMPENSATION")]["attempts"] == 1)
    assert "is being undone" in act(client, made["id"], "cancel", expect=409)["detail"]
    done = ended(client, made["id"])
    assert (done["status"], done["compensation"]) == ("FAILED", "COMPLETE"), done
    assert len(receiver.to("/undo")) == 2


def test_only_what_was_sent_is_undone_if_attempted(client, receiver):
    receiver.answer("/a", Reply(body=b'{"x": 1}'))
    receiver.answer("/sent", Reply(status=400))
    undone = lambda path: {"compensate": {"if_attempted": True, **http(receiver, path)}}
    made = run(client, definition={"steps": [
        {"name": "a", **http(receiver, "/a")},
        {"name": "sent", "depends_on": ["a"], **http(receiver, "/sent"), **undone("/undo/sent")},
        {"name": "unsent", "depends_on": ["a"], **http(receiver, "/unsent", body={"$ref": "/steps/a/output/y"}), **undone("/undo/unsent")},
        {"name": "skipped", "depends_on": ["sent"], **http(receiver, "/skipped"), **undone("/undo/skipped")}]})
    assert ended(client, made["id"])["status"] == "FAILED"
    assert [c.path for c in receiver.calls if "undo" in c.path] == ["/undo/sent"]


def test_the_deadline_of_a_retried_run_counts_from_the_retry(client):
    made = run(client, deadline_seconds=1, definition={"steps": [{"name": "w", "await": {"signal": "go"}}]})
    for _ in range(3):
        began = now_ms()
        done = ended(client, made["id"])
        assert done["status"] == "FAILED" and now_ms() - began < 3000, done
        act(client, made["id"], "retry")
    act(client, made["id"], "cancel")


def test_a_cancel_undoes_nothing_after_the_end(client, receiver):
    definition = {"steps": [{"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")}, {"name": "w", "depends_on": ["a"], "await": {"signal": "go"}}]}
    made = run(client, definition=definition)["id"]
    assert client.post(f"/v1/workflows/{made}/signals/go").status == 200
    assert ended(client, made)["status"] == "COMPLETED"
    refused = client.post(f"/v1/workflows/{made}/cancel", {"compensate": True})
    assert refused.status == 409 and "COMPLETED" in refused.json["detail"], refused
    made = run(client, definition=definition)["id"]
    until(lambda: status(client, made)["awaiting"])
    cancel(client, made)
    assert ended(client, made)["status"] == "CANCELLED"
    assert "retry it" in act(client, made, "cancel", {"compensate": True}, 409)["detail"]
    act(client, made, "retry")
    until(lambda: status(client, made)["awaiting"])
    cancel(client, made, {"compensate": True})
    assert ended(client, made)["compensation"] == "COMPLETE"
    act(client, made, "cancel", {"compensate": True})  # the same once more
    assert len(receiver.to("/undo")) == 1


def test_a_run_that_was_undone_is_neither_retried_nor_completed(client, receiver):
    receiver.answer("/fails", Reply(status=400))
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")},
                                             {"name": "fails", "depends_on": ["a"], **http(receiver, "/fails")}]})["id"]
    assert ended(client, made)["compensation"] == "COMPLETE"
    for action, body in (("retry", None), ("retry", {"steps": ["fails"]}), ("steps/fails/force-complete", {"output": 1})):
        assert "compensated" in act(client, made, action, body, 409)["detail"]
    again = act(client, made, "rerun", {"from": "a"}, 201)["id"]
    assert ended(client, again)["status"] == "FAILED" and len(receiver.to("/a")) == 2


@pytest.mark.cluster(when="always")
def test_a_step_that_only_an_earlier_attempt_of_its_run_called_is_undone(client, receiver):
    receiver.answer("/a", Reply(status=400))
    undo = {"if_attempted": True, "queue": "default", **http(receiver, "/undo")}
    made = run(client, retry={**RETRIES["retry"], "max_attempts": 2},
               definition={"steps": [{"name": "a", "queue": "slow", **http(receiver, "/a"), "compensate": undo}]})["id"]
    receiver.wait("/a")
    assert client.request("PUT", "/v1/queues/slow", {"paused": True}).status == 200
    until(lambda: (steps(client, made)[("a", None, "STEP")]["status"], steps(client, made)[("a", None, "STEP")]["attempts"]) == ("SCHEDULED", 0))
    cancel(client, made, {"compensate": True})
    done = ended(client, made)
    assert (done["status"], done["compensation"], len(receiver.to("/a")), len(receiver.to("/undo"))) == ("CANCELLED", "COMPLETE", 1, 1), done


def test_a_rerun_repeats_what_was_undone_with_all_behind_it(client, receiver):
    """`b` cannot be undone, and worked with what `a` had answered."""
    receiver.answer("/c", Reply(status=400), Reply())
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")},
                                             {"name": "b", "depends_on": ["a"], **http(receiver, "/b")},
                                             {"name": "other", **http(receiver, "/other")},
                                             {"name": "c", "depends_on": ["b"], **http(receiver, "/c")}]})["id"]
    assert ended(client, made)["compensation"] == "COMPLETE"
    again = act(client, made, "rerun", {"from": "c"}, 201)["id"]
    assert ended(client, again)["status"] == "COMPLETED"
    assert [len(receiver.to(path)) for path in ("/a", "/b", "/other", "/c", "/undo")] == [2, 2, 1, 2, 1]


@pytest.mark.cluster(when="always")
def test_a_rerun_that_is_edited_cancelled_and_retried_before_it_starts_is_still_one(client, receiver):
    receiver.answer("/b", Reply(status=400), Reply())
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "b", "depends_on": ["a"], **http(receiver, "/b")}]},
               concurrency_key="k")["id"]
    assert ended(client, made)["status"] == "FAILED"
    first = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}]}, concurrency_key="k")["id"]  # it has the key
    until(lambda: status(client, first)["awaiting"])
    again = act(client, made, "rerun", {"from": "b"}, 201)["id"]
    assert client.request("PATCH", f"/v1/tasks/{again}", {"priority": 7, "metadata": {"why": "late"}}).status == 200
    cancel(client, again)
    act(client, again, "retry")
    act(client, first, "signals/go")
    done = ended(client, again)
    assert done["status"] == "COMPLETED" and done["priority"] == 7, done
    assert (len(receiver.to("/a")), len(receiver.to("/b"))) == (1, 2)


def test_a_run_whose_sub_run_was_undone_is_not_retried(client, receiver):
    receiver.answer("/fails", Reply(status=400))
    put(client, "within", {"steps": [{"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")},
                                     {"name": "fails", "depends_on": ["a"], **http(receiver, "/fails")}]})
    made = run(client, definition={"steps": [{"name": "first", **http(receiver, "/first")},
                                             {"name": "sub", "depends_on": ["first"], "target_type": "WORKFLOW", "target_config": {"workflow": "within"}}]})["id"]
    assert ended(client, made)["status"] == "FAILED" and len(receiver.to("/undo")) == 1
    for path in (f"/v1/workflows/{made}/retry", f"/v1/dlq/{made}/retry"):
        refused = client.post(path)
        assert refused.status == 409 and "rerun it" in refused.json["detail"], refused
    again = act(client, made, "rerun", {"from": "sub"}, 201)["id"]
    assert ended(client, again)["status"] == "FAILED" and len(receiver.to("/first")) == 1 and len(receiver.to("/a")) == 2


def test_a_failed_compensation_is_completed_by_hand(client, receiver):
    for path in ("/fails", "/undo-a", "/undo-m"):
        receiver.answer(path, Reply(status=400))
    made = run(client, definition={"steps": [
        {"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo-a")},
        {"name": "m", "map": {"over": {"$literal": [1, 2]}}, **http(receiver, "/m"), "compensate": http(receiver, "/undo-m")},
        {"name": "fails", "depends_on": ["a", "m"], **http(receiver, "/fails")}]})["id"]
    done = ended(client, made)
    assert done["compensation"] == "INCOMPLETE" and done["last_error"].endswith("; compensation INCOMPLETE, 3 of 3 failed"), done
    assert "compensat" in act(client, made, "steps/fails/force-complete", expect=409)["detail"]
    act(client, made, "steps/m/force-complete", {"output": 1}, 400)
    assert act(client, made, "steps/m/force-complete")["kind"] == "COMPENSATION"
    assert ended(client, made)["last_error"].endswith("; compensation INCOMPLETE, 1 of 3 failed")
    act(client, made, "steps/a/force-complete")
    done = ended(client, made)
    assert (done["status"], done["compensation"]) == ("FAILED", "COMPLETE") and "INCOMPLETE" not in done["last_error"], done
    assert len(receiver.to("/undo-m")) == 2 and len(receiver.to("/undo-a")) == 2


def test_a_cancel_may_ask_later_that_what_was_done_is_undone(client, receiver):
    """The first cancel leaves a leased step, so the run is still open when the second one comes."""
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")},
                                             {"name": "leased", "depends_on": ["a"], "target_type": "WORKER", "queue": "jobs"}]})["id"]
    lease = until(lambda: client.post("/v1/leases", {"queue": "jobs", "max": 1, "wait_seconds": 5}).json["leases"])[0]
    assert client.post(f"/v1/workflows/{made}/cancel").status == 202
    assert client.post(f"/v1/workflows/{made}/cancel", {"compensate": True}).status == 202
    client.post(f"/v1/leases/{lease['id']}/fail", {"error": "cancelled"})
    done = ended(client, made)
    assert (done["status"], done["compensation"]) == ("CANCELLED", "COMPLETE"), done
    assert len(receiver.to("/undo")) == 1


def test_the_next_run_of_a_schedule_ends_the_calls_of_the_previous_one(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    assert client.request("PUT", "/v1/workflow-definitions/slow", {"steps": [{"name": "a", **http(receiver, "/a")}]}).status == 201
    schedule = client.create(interval_seconds=1, overlap_policy="CANCEL_PREVIOUS", target_type="WORKFLOW", target_config={"workflow": "slow"})["id"]
    runs = lambda state: client.get(f"/v1/workflows?status={state}").json["workflows"]
    first = until(lambda: runs("CANCELLED"))[-1]["id"]
    assert steps(client, first)[("a", None, "STEP")]["status"] == "CANCELLED"
    client.act(schedule, "cancel")
    held.set()
    for one in runs("RUNNING"):
        client.post(f"/v1/workflows/{one['id']}/cancel")


# ---- timers that are nearly due ----


def test_a_run_that_is_over_in_time_does_not_wait_for_its_deadline(client):
    made = [run(client, deadline_seconds=s, definition={"steps": [{"name": "m", "target_type": "NOOP"}]}) for s in (10, 20, 20, 30)]
    for r in made:
        done = ended(client, r["id"])
        assert done["status"] == "COMPLETED", done
        assert instant_ms(done["completed_at"]) - instant_ms(done["created_at"]) < 8000, done


def test_a_run_that_ends_shortly_before_its_deadline_is_not_undone(client, receiver):
    held = threading.Event()
    receiver.answer("/work", Reply(hold=held))
    made = run(client, deadline_seconds=2, definition={"steps": [{"name": "w", **http(receiver, "/work"), "compensate": http(receiver, "/undo")}]})
    receiver.wait("/work")
    late = now_ms() + 1000
    until(lambda: now_ms() > late)
    held.set()
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and not receiver.to("/undo"), done


def test_a_signal_just_before_the_timeout_acts_at_once(client):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go", "timeout": "3s"}}]})
    until(lambda: status(client, made["id"])["awaiting"])
    signalled = now_ms()
    assert client.post(f"/v1/workflows/{made['id']}/signals/go", {"by": "ann"}).status == 200
    assert ended(client, made["id"])["status"] == "COMPLETED" and now_ms() - signalled < 1500


def change(server, made, action, after_s):
    time.sleep(after_s)
    own = server.client()
    code = own.post(f"/v1/workflows/{made}/{action}").status
    own.close()
    return code


@pytest.mark.cluster
def test_a_pause_and_a_resume_at_once_leave_nothing_paused_in_a_run_that_goes_on(server):
    """The resume may overtake the pause at steps that are claimed and at runs below."""
    client = server.client()
    below = {"steps": [{"name": "p", "target_type": "NOOP"}, {"name": "w", "depends_on": ["p"], "delay": "1s", "target_type": "NOOP"}]}
    assert client.request("PUT", "/v1/workflow-definitions/below", below).status == 201
    steps = [{"name": f"b{k}", "target_type": "WORKFLOW", "target_config": {"workflow": "below"}} for k in range(3)]
    steps.append({"name": "own", "await": {"signal": "go"}})  # so none is over before it is asked to pause

    made = [run(client, definition={"steps": steps})["id"] for _ in range(12)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(change, server, one, action, after_s) for i, one in enumerate(made) for action, after_s in (("pause", 0), ("resume", 0.004 * (i % 4)))]
        assert {a.result() for a in asked} <= {200, 202}
    for one in made:
        if client.get(f"/v1/workflows/{one}").json["paused"]:  # the resume was first
            act(client, one, "resume")
        assert client.post(f"/v1/workflows/{one}/signals/go").status == 200
        assert ended(client, one)["status"] == "COMPLETED"
    client.close()


@pytest.mark.cluster(when="always")
def test_a_run_that_is_paused_and_cancelled_at_once_ends(server):
    """The pause must not hold what the cancel has woken, so that it ends: maps, and runs below."""
    client = server.client()
    below = {"steps": [{"name": f"k{j}", "delay": "20s", "target_type": "NOOP"} for j in range(3)]}
    assert client.request("PUT", "/v1/workflow-definitions/below", below).status == 201
    target = {"target_type": "WORKFLOW", "target_config": {"workflow": "below"}}
    shapes = [[{"name": "sub", **target}], [{"name": "subs", **target, "map": {"over": [1, 2, 3]}}]]
    made = [run(client, definition={"steps": shapes[i % 2]})["id"] for i in range(24)]
    for one in made:
        until(lambda: all(step["status"] == "RUNNING" for step in steps(client, one).values()))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(change, server, one, action, after_s) for i, one in enumerate(made)
                 for action, after_s in (("cancel", 0), ("pause", 0.003 * (i % 8)))]
        assert {a.result() for a in asked} <= {200, 202, 409}
    assert {ended(client, one)["status"] for one in made} == {"CANCELLED"}
    client.close()


def test_a_pause_holds_a_timeout_that_is_nearly_due(client):
    r = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go", "timeout": "1s"}}]})
    until(lambda: status(client, r["id"])["awaiting"])
    assert client.post(f"/v1/workflows/{r['id']}/pause").status in (200, 202)
    late = now_ms() + 1500
    until(lambda: now_ms() > late)
    shown = client.get(f"/v1/workflows/{r['id']}").json
    assert shown["status"] == "RUNNING" and shown["paused"], shown
    assert client.post(f"/v1/workflows/{r['id']}/resume").status == 200
    assert ended(client, r["id"])["status"] == "FAILED"


def test_what_comes_first_a_signal_or_the_timeout_counts_also_in_a_paused_run(client, receiver):
    wait = {"name": "w", "await": {"signal": "go", "approvals": 2, "timeout": "1s"}}
    made = [run(client, definition={"steps": [wait, {"name": "pay", "depends_on": ["w"], **http(receiver, f"/pay{i}")}]})["id"] for i in range(2)]

    def send(one, by):
        return client.post(f"/v1/workflows/{one}/signals/go", {"by": by})

    for one in made:
        until(lambda one=one: status(client, one)["awaiting"])
        act(client, one, "pause")
        assert send(one, "ann").status == 200
    assert send(made[0], "bob").json["received"] == 2
    over = instant_ms(steps(client, made[1])[("w", None, "STEP")]["started_at"]) + 1000
    until(lambda: now_ms() > over)
    late = send(made[1], "bob")
    assert late.status == 409 and "to wait was over at" in late.json["detail"], late
    assert send(made[1], "ann").status == 200  # once more
    for one in made:
        act(client, one, "resume")
    assert [ended(client, one)["status"] for one in made] == ["COMPLETED", "FAILED"]
    assert "1 of 2" in steps(client, made[1])[("w", None, "STEP")]["last_error"]
    assert len(receiver.to("/pay0")) == 1 and not receiver.to("/pay1")


def test_a_paused_run_is_stopped_at_its_deadline(client, receiver):
    """So are its maps, its awaits and the runs below it. What was paused is not called, not even to undo it, before the resume."""
    calls = [{"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")}, {"name": "b", "depends_on": ["a"], "delay": "60s", **http(receiver, "/late")}]
    mapped = [{"name": "m", "map": {"over": [1, 2]}, "delay": "60s", **http(receiver, "/late")},
              {"name": "n", "map": {"over": [1, 2, 3], "max_concurrent": 1}, **http(receiver, "/item")}]
    held = threading.Event()
    receiver.answer("/item", *[Reply(hold=held)] * 9)
    assert client.request("PUT", "/v1/workflow-definitions/inner", {"steps": [*mapped, {"name": "w", "await": {"signal": "go"}}]}).status == 201
    soon, later = (6, 9) if LONG else (1.5, 3)  # none is over before all are paused
    within = [{"name": "o", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}]
    limited = [{"name": "o", "target_type": "WORKFLOW", "target_config": {"workflow": "inner", "deadline_seconds": later}}]
    made = [run(client, definition={"steps": wanted}, **more)["id"] for wanted, more in (
        (mapped, {"deadline_seconds": later}), (within, {"deadline_seconds": soon}), (limited, {}), (calls, {"deadline_seconds": soon}))]
    until(lambda: len(receiver.to("/a")) == 1 and len(receiver.to("/item")) >= 3)
    for one in made:
        act(client, one, "pause")
    for one in made[:3]:
        done = ended(client, one)
        assert done["status"] == "FAILED" and "deadline" in done["last_error"], done
    undoes = until(lambda: [s for (_, _, kind), s in steps(client, made[3]).items() if kind == "COMPENSATION"])
    assert undoes[0]["status"] == "PAUSED" and not receiver.to("/undo"), undoes
    act(client, made[3], "resume")
    assert ended(client, made[3])["status"] == "FAILED" and len(receiver.to("/undo")) == 1
    assert not receiver.to("/late") and len(receiver.to("/item")) == 3
    held.set()


def test_a_cancel_aborts_all_calls_of_a_large_map_in_a_run_below(client, receiver, topology):
    held = threading.Event()
    at_once = 20 if topology.startswith("fleet") else 256  # slots of a worker; calls to one host, and a stop has pages of 250
    receiver.answer("/i", *[Reply(hold=held)] * 600)
    inner = {"steps": [{"name": "i", "map": {"over": list(range(300))}, **http(receiver, "/i")}]}
    assert client.request("PUT", "/v1/workflow-definitions/inner", inner).status == 201
    made = run(client, definition={"steps": [{"name": "o", "map": {"over": [1, 2]}, "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}]})
    until(lambda: len(receiver.to("/i")) >= at_once)
    assert client.post(f"/v1/workflows/{made['id']}/cancel").status in (200, 202)
    assert ended(client, made["id"])["status"] == "CANCELLED" and not held.is_set()
    held.set()


def test_a_large_run_is_retried_right_after_it_was_cancelled(client):
    """Steps that run again are not skipped because of how their parents ended before. The last step waits, so that the run has not ended before the
    cancel comes."""
    count, length = 1500, 50
    chains = [{"name": f"s{i}", "target_type": "NOOP", **({"depends_on": [f"s{i - 1}"]} if i % length else {})} for i in range(count - 1)]
    made = run(client, definition={"steps": [*chains, {"name": "last", "await": {"signal": "go"}}]})["id"]
    until(lambda: status(client, made)["by_status"].get("COMPLETED", 0) >= 100)
    cancel(client, made)
    act(client, made, "retry")
    until(lambda: client.post(f"/v1/workflows/{made}/signals/go").status == 200)
    done = ended(client, made, 50)
    assert done["status"] == "COMPLETED" and done["steps"]["by_status"] == {"COMPLETED": count}, done


def test_a_run_is_cancelled_or_the_cancel_is_refused(client):
    """The cancel comes while the run ends."""
    answers = set()
    for i in range(60):
        made = run(client, definition={"steps": [{"name": "a", "target_type": "NOOP"}]})["id"]
        time.sleep(i % 20 * 0.001)
        answer = client.post(f"/v1/workflows/{made}/cancel").status
        done = ended(client, made)
        answers.add((answer, done["status"], bool(done["stopped_by"])))
    assert answers <= {(200, "CANCELLED", True), (200, "CANCELLED", False), (202, "CANCELLED", True), (409, "COMPLETED", False)}, answers


def test_a_run_that_is_cancelled_before_its_start_says_by_whom(client):
    definition = {"steps": [{"name": "w", "await": {"signal": "go"}}]}
    runs = [run(client, definition=definition, concurrency_key="one")["id"] for _ in range(2)]
    first = until(lambda: next((made for made in runs if status(client, made)["awaiting"]), None))  # which of them nobody knows
    for made in sorted(runs, key=lambda made: made == first):
        cancel(client, made)
        assert ended(client, made)["last_error"].startswith("cancelled by ")
