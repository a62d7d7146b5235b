"""The HTTP API of workflows, on the real server with the receiver as oracle: definitions, runs, steps, signals, changes."""

import contextlib
import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from server import Reply, until

pytestmark = [pytest.mark.tenant, pytest.mark.cluster]
STEPS = [{"name": "a", "target_type": "NOOP"}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"}]


def put(client, name, definition, expect=(200, 201)):
    answer = client.request("PUT", f"/v1/workflow-definitions/{name}", definition)
    assert answer.status in expect, answer
    return answer.json


def run(client, expect=201, **body):
    answer = client.post("/v1/workflows", body)
    assert answer.status == expect, answer
    return answer.json


def ended(client, run_id, seconds=20):
    answer = client.get(f"/v1/workflows/{run_id}?wait_seconds={seconds}", timeout_s=seconds + 20)
    assert answer.status == 200, answer
    assert answer.json["completed_at"], answer
    return answer.json


def steps(client, run_id, query=""):
    answer = client.get(f"/v1/workflows/{run_id}/steps{query}")
    assert answer.status == 200, answer
    return {(x["step"], x["item"], x["kind"]): x for x in answer.json["steps"]}


def status(client, run_id):
    answer = client.get(f"/v1/workflows/{run_id}/status")
    assert answer.status == 200, answer
    return answer.json


def act(client, run_id, action, body=None, expect=200):
    """On a full machine, a cancel or pause may take longer than an answer waits for it: 202."""
    answer = client.post(f"/v1/workflows/{run_id}/{action}", body)
    assert answer.status == expect or (answer.status, expect) == (202, 200) and action in ("cancel", "pause"), answer
    return answer.json


def http(receiver, path, **more):
    return {"target_config": {"url": receiver.url(path), **more}}


@pytest.mark.text("no task runs")
def test_a_definition_has_versions(client):
    first = put(client, "order", {"steps": STEPS}, expect=(201,))
    assert first["version"] == 1 and first["changed"] and first["steps"] == 2
    assert put(client, "order", {"steps": STEPS}, expect=(200,)) == {**first, "changed": False}
    second = put(client, "order", {"steps": STEPS[:1]}, expect=(200,))
    assert second["version"] == 2 and second["hash"] != first["hash"]
    got = client.get("/v1/workflow-definitions/order").json
    assert got["version"] == 2 and got["definition"] == {"steps": STEPS[:1]}
    assert client.get("/v1/workflow-definitions/order?version=1").json["hash"] == first["hash"]
    assert client.get("/v1/workflow-definitions/order?version=3").status == 404
    put(client, "other", {"steps": STEPS})
    page = client.get("/v1/workflow-definitions?limit=1").json
    assert [x["name"] for x in page["definitions"]] == ["order"] and page["next_cursor"]
    page = client.get(f"/v1/workflow-definitions?limit=1&cursor={page['next_cursor']}").json
    assert [x["name"] for x in page["definitions"]] == ["other"]
    assert client.request("DELETE", "/v1/workflow-definitions/order").status == 204
    assert client.request("DELETE", "/v1/workflow-definitions/order").status == 404
    assert client.get("/v1/workflow-definitions/order").status == 404


@pytest.mark.parametrize(
    ("steps_", "field", "says"),
    [
        ([{"name": "a"}], "steps[0].target_config", "is required"),
        ([STEPS[0], {**STEPS[1], "retry": {"max_attempts": 0}}], "steps[1].retry.max_attempts", "must be"),
        ([STEPS[0], {**STEPS[1], "depends_on": ["c"]}], "steps[1].depends_on[0]", "no step is named 'c'"),
        ([STEPS[0], {**STEPS[1], "cron_expression": "* * * * *"}], "steps[1].cron_expression", "unknown"),
    ],
)
@pytest.mark.shared
def test_a_definition_is_refused_by_its_path(client, steps_, field, says):
    answer = client.request("PUT", "/v1/workflow-definitions/bad", {"steps": steps_})
    assert answer.status == 400, answer
    assert answer.json["errors"][0]["field"] == field and says in answer.json["errors"][0]["message"]
    answer = client.post("/v1/workflows", {"definition": {"steps": steps_}})
    assert answer.status == 400 and answer.json["errors"][0]["field"] == f"definition.{field}"


@pytest.mark.text("no task runs")
def test_a_run_is_refused_by_its_field(client):
    put(client, "order", {"steps": STEPS})
    for body, field in [
        ({}, "workflow"),
        ({"workflow": "odrer"}, "workflow"),
        ({"workflow": "order", "version": 7}, "version"),
        ({"workflow": "order", "definition": {"steps": STEPS}}, "definition"),
        ({"workflow": "order", "payload": 1}, "payload"),
        ({"workflow": "order", "interval_seconds": 5}, "interval_seconds"),
        ({"workflow": "order", "priority": 10}, "priority"),
        ({"workflow": "order", "timeout_ms": 10}, "timeout_ms"),
    ]:
        answer = client.post("/v1/workflows", body)
        assert answer.status == 400 and answer.json["errors"][0]["field"] == field, (body, answer)
    assert client.get("/v1/workflows/019c3f2e-7a40-7000-8000-000000000000").status == 404


def test_a_run_passes_data_from_step_to_step(client, receiver):
    receiver.answer("/charge", Reply(body=b'{"amount": 12}'))
    definition = {
        "steps": [
            {"name": "charge", **http(receiver, "/charge", body={"id": {"$ref": "/input/id"}})},
            {"name": "ship", "depends_on": ["charge"], **http(receiver, "/ship", body={"$ref": "/steps/charge/output/amount"})},
        ],
        "result": {"paid": {"$ref": "/steps/charge/output/amount"}},
    }
    put(client, "order", definition)
    made = run(client, workflow="order", input={"id": 7}, name="first")
    assert made["status"] == "SCHEDULED" and made["version"] == 1 and made["input"] == {"id": 7}
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and done["result"] == {"paid": 12}, done
    assert done["steps"] == {"total": 2, "by_status": {"COMPLETED": 2}}
    assert receiver.to("/ship")[0].body == b"12" and receiver.to("/charge")[0].body == b'{"id":7}'
    shown = steps(client, made["id"])
    assert shown[("ship", None, "STEP")]["depends_on"] == ["charge"] and shown[("charge", None, "STEP")]["output"] == '{"amount": 12}'
    task = client.task(shown[("ship", None, "STEP")]["id"])
    assert (task["run"], task["step"], task["item"]) == (made["id"], "ship", None)
    assert steps(client, made["id"], "?step=ship").keys() == {("ship", None, "STEP")}
    assert "did you mean 'ship'" in client.get(f"/v1/workflows/{made['id']}/steps?step=shp").json["detail"]
    listed = client.get("/v1/workflows?name=first").json["workflows"]
    assert [x["id"] for x in listed] == [made["id"]]
    assert not [x for x in client.all("/v1/tasks") if x.get("run")]


def test_a_failed_run_is_a_dead_letter_and_is_retried(client, receiver):
    receiver.answer("/b", Reply(status=400), Reply())
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "b", "depends_on": ["a"], **http(receiver, "/b")}]})
    done = ended(client, made["id"])
    assert done["status"] == "FAILED" and done["failed_step"] == "b" and "b" in done["last_error"], done
    assert status(client, made["id"])["failures"][0]["step"] == "b"
    assert [x["id"] for x in client.all("/v1/dlq")] == [made["id"]]
    answer = client.post(f"/v1/workflows/{made['id']}/retry", {"steps": ["a"]})
    assert answer.status == 409 and "COMPLETED" in answer.json["detail"]
    act(client, made["id"], "retry", {"steps": ["b"]})
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert len(receiver.to("/a")) == 1 and len(receiver.to("/b")) == 2


def test_an_await_takes_signals(client):
    definition = {"steps": [{"name": "sign", "await": {"signal": "approved", "approvals": 2}}], "result": {"$ref": "/steps/sign/output"}}
    made = run(client, definition=definition)
    until(lambda: status(client, made["id"])["awaiting"])
    url = f"/v1/workflows/{made['id']}/signals"
    assert client.post(f"{url}/approvd").status == 404
    first = client.post(f"{url}/approved", {"by": "ann", "payload": 1}).json
    assert first == {"signal": "approved", "step": "sign", "received": 1, "rejections": 0, "approvals": 2, "repeated": False}
    assert client.post(f"{url}/approved", {"by": "ann", "payload": 1}).status == 200
    assert client.post(f"{url}/approved", {"by": "ann", "payload": 2}).status == 409
    waits = status(client, made["id"])["awaiting"][0]
    assert waits["received"] == 1 and [sender["decision"] for sender in waits["senders"]] == ["APPROVE"]
    assert client.post(f"{url}/approved", {"by": "bob"}).json["received"] == 2
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert client.post(f"{url}/approved", {"by": "eve"}).status == 409


@pytest.mark.cluster(when="always")
def test_a_signal_is_accepted_if_it_is_in_the_output(client, server):
    """Twelve senders at once, where one is enough: the step ends while others are still being stored."""
    senders = {f"sender-{i}": server.client() for i in range(12)}
    definition = {"steps": [{"name": "w", "await": {"signal": "go"}}], "result": {"$ref": "/steps/w/output"}}
    with ThreadPoolExecutor(len(senders)) as pool:
        for _ in range(15):
            made = run(client, definition=definition)["id"]
            until(lambda: status(client, made)["awaiting"])
            together = threading.Barrier(len(senders))

            def send(by):
                together.wait()
                return senders[by].post(f"/v1/workflows/{made}/signals/go", {"by": by}).status

            answers = dict(zip(senders, pool.map(send, senders)))
            assert set(answers.values()) <= {200, 409}, answers
            assert {x["by"] for x in ended(client, made)["result"]} == {by for by, code in answers.items() if code == 200}, answers


def test_an_open_run_is_cancelled(client, receiver):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "b", "depends_on": ["w"], **http(receiver, "/b")}]})
    until(lambda: status(client, made["id"])["awaiting"])
    act(client, made["id"], "cancel")
    done = ended(client, made["id"])
    assert done["status"] == "CANCELLED" and done["stopped_by"], done
    assert done["steps"]["by_status"] == {"CANCELLED": 2}
    assert not receiver.to("/b")
    assert act(client, made["id"], "cancel")["status"] == "CANCELLED"


@pytest.mark.text("no task runs")
def test_a_run_that_is_not_open_is_cancelled_like_a_task(client):
    made = run(client, definition={"steps": STEPS}, delay="1h")
    assert act(client, made["id"], "pause")["paused"]
    assert act(client, made["id"], "resume")["status"] == "SCHEDULED"
    assert act(client, made["id"], "cancel")["status"] == "CANCELLED"


def test_a_paused_run_starts_nothing(client, receiver):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "b", "depends_on": ["w"], **http(receiver, "/b")}]})
    until(lambda: status(client, made["id"])["awaiting"])
    assert act(client, made["id"], "pause")["paused"]
    assert client.post(f"/v1/workflows/{made['id']}/signals/go").status == 200
    assert act(client, made["id"], "resume")["paused"] is False
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert len(receiver.to("/b")) == 1


def test_steps_are_decided_by_hand(client, receiver):
    definition = {
        "steps": [
            {"name": "w", "await": {"signal": "go"}},
            {"name": "b", "depends_on": ["w"], **http(receiver, "/b")},
            {"name": "c", "depends_on": ["w"], **http(receiver, "/c")},
        ]
    }
    made = run(client, definition=definition)
    until(lambda: status(client, made["id"])["awaiting"])
    assert client.post(f"/v1/workflows/{made['id']}/steps/bb/skip").status == 404
    assert act(client, made["id"], "steps/b/skip")["status"] == "SKIPPED"
    act(client, made["id"], "steps/c/run-now", expect=409)
    act(client, made["id"], "steps/c/run-now", {"force": True})
    receiver.wait("/c")
    assert act(client, made["id"], "steps/w/force-complete", {"output": {"x": 1}})["status"] == "COMPLETED"
    assert json.loads(steps(client, made["id"])["w", None, "STEP"]["output"]) == {"x": 1}
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert not receiver.to("/b") and len(receiver.to("/c")) == 1


def test_a_failed_step_is_completed_by_hand_and_its_run_goes_on(client, receiver):
    receiver.answer("/a", Reply(status=400, body=b"wrong"))
    definition = {
        "steps": [
            {"name": "a", **http(receiver, "/a")},
            {"name": "b", "depends_on": ["a"], **http(receiver, "/b", body={"$ref": "/steps/a/output/x"})},
        ]
    }
    made = run(client, definition=definition)
    assert ended(client, made["id"])["status"] == "FAILED"
    act(client, made["id"], "steps/b/force-complete", expect=409)
    assert act(client, made["id"], "steps/a/force-complete", {"output": {"x": 5}})["by_hand"]
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert len(receiver.to("/a")) == 1 and [c.body for c in receiver.to("/b")] == [b"5"]
    a = steps(client, made["id"])["a", None, "STEP"]
    read = client.get(f"/v1/workflows/{made['id']}/steps/a")
    assert read.status == 200 and read.json == {**client.get(f"/v1/tasks/{a['id']}").json, "definition": definition["steps"][0]} and read.headers["etag"]
    assert client.get(f"/v1/workflows/{made['id']}/steps/a?item=0").status == 400  # it is no map
    assert client.get(f"/v1/workflows/{made['id']}/steps/aa").status == 404
    assert json.loads(a["output"]) == json.loads(client.get(f"/v1/tasks/{a['id']}").json["output"]) == {"x": 5}  # not the answer of its attempt


def mapped(receiver, items):
    """A map whose items wait for an hour after a failed attempt, and a step that gets their outputs."""
    return {
        "steps": [
            {"name": "m", "map": {"over": items}, "retry": {"base_delay_ms": 3600000, "max_delay_ms": 3600000, "jitter": "NONE"},
             "target_config": {"url": {"$join": [receiver.url("/"), {"$ref": "/item"}]}}},
            {"name": "b", "depends_on": ["m"], **http(receiver, "/b", body={"$ref": "/steps/m/output"})},
        ]
    }


def test_items_of_a_map_are_decided_on_by_hand(client, receiver):
    receiver.answer("/0", Reply(status=503), Reply(body=b"10"))
    receiver.answer("/1", Reply(status=503))
    receiver.answer("/2", Reply(status=503))
    receiver.answer("/3", Reply(body=b"13"))
    made = run(client, definition=mapped(receiver, [0, 1, 2, 3]))["id"]
    until(lambda: [steps(client, made).get(("m", i, "ITEM"), {}).get("status") for i in range(4)] == ["SCHEDULED"] * 3 + ["COMPLETED"]
          and all(steps(client, made)["m", i, "ITEM"]["attempts"] for i in range(3)))
    assert act(client, made, "steps/m/skip", {"item": 1})["status"] == "SKIPPED"
    assert act(client, made, "steps/m/force-complete", {"item": 2, "output": {"x": 12}})["item"] == 2
    assert "the item is COMPLETED" in act(client, made, "steps/m/force-complete", {"item": 3}, 409)["detail"]
    assert "has no item 4" in act(client, made, "steps/m/skip", {"item": 4}, 404)["detail"]
    for step, item in ("b", 0), ("m", -1):
        assert act(client, made, f"steps/{step}/skip", {"item": item}, 400)["errors"][0]["field"] == "item"
    act(client, made, "steps/m/run-now", {"item": 0})
    assert ended(client, made)["status"] == "COMPLETED"
    assert [json.loads(c.body) for c in receiver.to("/b")] == [[10, None, {"x": 12}, 13]]


def test_a_skipped_item_stays_skipped_in_a_retry(client, receiver):
    receiver.answer("/0", Reply(status=503))
    receiver.answer("/1", Reply(status=503), Reply(status=400), Reply(body=b"11"))
    made = run(client, definition=mapped(receiver, [0, 1]))["id"]
    until(lambda: all(steps(client, made).get(("m", i, "ITEM"), {}).get("attempts") for i in range(2)))
    act(client, made, "steps/m/skip", {"item": 0})
    act(client, made, "steps/m/run-now", {"item": 1})
    assert ended(client, made)["status"] == "FAILED"
    assert "complete the whole step" in act(client, made, "steps/m/force-complete", {"item": 1}, 409)["detail"]
    act(client, made, "retry")
    assert ended(client, made)["status"] == "COMPLETED"
    assert [json.loads(c.body) for c in receiver.to("/b")] == [[None, 11]] and len(receiver.to("/0")) == 1


def test_a_map_that_a_user_completes_has_the_given_output(client, receiver):
    receiver.answer("/0", Reply(status=400))
    made = run(client, definition=mapped(receiver, [0, 1]))["id"]
    assert ended(client, made)["status"] == "FAILED"
    act(client, made, "steps/m/force-complete", {"output": [1, 2, 3]})
    assert ended(client, made)["status"] == "COMPLETED"
    assert [json.loads(c.body) for c in receiver.to("/b")] == [[1, 2, 3]]


def test_a_failed_map_is_completed_with_the_output_that_a_user_gives(client, receiver):
    receiver.answer("/m", Reply(status=400))
    made = run(client, definition={"steps": [{"name": "m", "map": {"over": {"$literal": [1, 2]}}, **http(receiver, "/m")},
                                             {"name": "b", "depends_on": ["m"], **http(receiver, "/b", body={"all": {"$ref": "/steps/m/output"}})}]})["id"]
    assert ended(client, made)["status"] == "FAILED"
    act(client, made, "steps/m/force-complete", {"output": [7, 8]})
    assert ended(client, made)["status"] == "COMPLETED"
    assert [json.loads(c.body) for c in receiver.to("/b")] == [{"all": [7, 8]}]


def test_a_run_that_has_started_keeps_its_input(client, receiver):
    receiver.answer("/b", Reply(status=400))
    put(client, "two", {"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "b", "depends_on": ["a"], **http(receiver, "/b", body={"$ref": "/input"})}]})
    made = run(client, workflow="two", input=1)["id"]
    assert ended(client, made)["status"] == "FAILED"
    refused = client.post(f"/v1/dlq/{made}/retry", {"target_config": {"input": 2}})
    assert refused.status == 409 and "rerun" in refused.json["detail"], refused
    assert client.post(f"/v1/dlq/{made}/retry", {"priority": 7}).status == 200
    assert ended(client, made)["status"] == "FAILED" and [c.body for c in receiver.to("/b")] == [b"1", b"1"]


def test_the_time_of_repeated_attempts_is_that_of_the_step(client, receiver):
    receiver.answer("/a", Reply(status=500), Reply())
    retry = {"max_attempts": 2, "base_delay_ms": 700, "backoff": "FIXED", "jitter": "NONE"}
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a"), "retry": retry}]})["id"]
    until(lambda: steps(client, made)[("a", None, "STEP")]["due_at"] if receiver.to("/a") else None)
    assert ended(client, made)["status"] == "COMPLETED"
    step = steps(client, made)[("a", None, "STEP")]
    assert step["attempts"] == 2 and step["duration_ms"] >= 700 > step["waited_ms"] and step["due_at"] is None, step
    again = act(client, made, "rerun", {"from": "a"}, expect=201)["id"]
    assert ended(client, again)["status"] == "COMPLETED"


def test_a_copied_step_takes_no_time_of_the_new_run(client, receiver):
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"}]})["id"]
    ended(client, made)
    again = act(client, made, "rerun", {"from": "b"}, expect=201)["id"]
    ended(client, again)
    copy = steps(client, again)[("a", None, "STEP")]
    assert (copy["released_at"], copy["started_at"], copy["duration_ms"]) == (None, None, None) and "copied" in copy["last_error"], copy


def test_a_run_without_a_definition_can_be_looked_at(client):
    put(client, "gone", {"steps": STEPS})
    schedule = client.create(target_type="WORKFLOW", target_config={"workflow": "gone"}, cron_expression="0 0 1 1 *")["id"]
    assert client.request("DELETE", "/v1/workflow-definitions/gone").status == 204
    made = client.post(f"/v1/tasks/{schedule}/run-now").json["occurrence_id"]
    assert ended(client, made)["status"] == "FAILED"
    assert steps(client, made) == {} and status(client, made)["total"] == 0


def test_a_running_step_cannot_be_skipped(client, receiver):
    receiver.answer("/slow", Reply(takes_s=1))
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/slow")}]})["id"]
    receiver.wait("/slow")
    assert "cannot be skipped" in act(client, made, "steps/a/skip", expect=409)["detail"]


def test_task_calls_on_a_step_name_the_call_of_the_run(client):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}]})
    until(lambda: status(client, made["id"])["awaiting"])
    step = steps(client, made["id"])[("w", None, "STEP")]["id"]
    for action in ("cancel", "pause", "run-now", "retry"):
        answer = client.post(f"/v1/tasks/{step}/{action}")
        assert answer.status == 409 and f"/v1/workflows/{made['id']}/" in answer.json["detail"]
    assert client.request("DELETE", f"/v1/tasks/{step}").status == 409
    assert client.request("PATCH", f"/v1/tasks/{step}", {"priority": 1}).status == 409
    assert "definition says" in client.post(f"/v1/tasks/{step}/dependencies", {"depends_on": []}).json["detail"]
    assert client.request("DELETE", f"/v1/tasks/{made['id']}/dependencies/{step}").status == 409
    assert client.act(made["id"], "cancel")["id"] == made["id"]
    assert ended(client, made["id"])["status"] == "CANCELLED"


def test_a_rerun_copies_what_is_done(client, receiver):
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "ship", "depends_on": ["a"], **http(receiver, "/b")}]})
    ended(client, made["id"])
    assert "did you mean" in client.post(f"/v1/workflows/{made['id']}/rerun", {"from": "shp"}).json["detail"]
    again = act(client, made["id"], "rerun", {"from": "ship"}, expect=201)
    assert again["id"] != made["id"] and ended(client, again["id"])["status"] == "COMPLETED"
    assert len(receiver.to("/a")) == 1 and len(receiver.to("/b")) == 2


def test_a_rerun_does_not_undo_what_it_has_copied(client, receiver):
    receiver.answer("/b", Reply(), Reply(status=400))
    undo = {"compensate": {"target_config": {"url": receiver.url("/undo")}}}
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a"), **undo}, {"name": "b", "depends_on": ["a"], **http(receiver, "/b")}]})
    assert ended(client, made["id"])["status"] == "COMPLETED"
    again = act(client, made["id"], "rerun", {"from": "b"}, expect=201)
    assert ended(client, again["id"])["status"] == "FAILED"
    assert not receiver.to("/undo")


def test_a_rerun_copies_the_output_that_a_user_gave(client, receiver):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "b", "depends_on": ["w"], **http(receiver, "/b", body={"$ref": "/steps/w/output"})}]})
    until(lambda: status(client, made["id"])["awaiting"])
    act(client, made["id"], "steps/w/force-complete", {"output": {"x": 1}})
    ended(client, made["id"])
    again = act(client, made["id"], "rerun", {"from": "b"}, expect=201)
    assert ended(client, again["id"])["status"] == "COMPLETED"
    assert len({c.body for c in receiver.to("/b")}) == 1 and len(receiver.to("/b")) == 2


def test_a_schedule_makes_runs(client):
    put(client, "order", {"steps": STEPS, "result": 5})
    missing = {"target_type": "WORKFLOW", "target_config": {"workflow": "none"}}
    answer = client.post("/v1/tasks", missing)
    assert answer.status == 400 and answer.json["errors"][0]["field"] == "target_config.workflow"
    assert client.post("/v1/tasks/batch", [missing]).json["failed"] == 1
    task = client.create(interval_seconds=1, target_type="WORKFLOW", target_config={"workflow": "order"}, max_runs=1)
    found = until(lambda: [x for x in client.get("/v1/workflows").json["workflows"] if x["parent_id"] == task["id"]])
    done = ended(client, found[0]["id"])
    assert done["status"] == "COMPLETED" and done["result"] == 5 and done["version"] == 1


def test_a_create_with_a_key_is_carried_out_once(client):
    body = {"definition": {"steps": STEPS}}
    first = client.post("/v1/workflows", body, key="k1")
    second = client.post("/v1/workflows", body, key="k1")
    assert first.status == second.status == 201 and first.json == second.json
    assert len(client.get("/v1/workflows").json["workflows"]) == 1


def test_a_cancelled_run_is_retried(client, receiver):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "b", "depends_on": ["w"], **http(receiver, "/b")}]})
    until(lambda: status(client, made["id"])["awaiting"])
    act(client, made["id"], "retry", expect=409)
    act(client, made["id"], "cancel")
    ended(client, made["id"])
    act(client, made["id"], "retry")
    until(lambda: status(client, made["id"])["awaiting"], timeout_s=4, why="the retry waits for a poll")
    assert client.post(f"/v1/workflows/{made['id']}/signals/go").status == 200
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert len(receiver.to("/b")) == 1


def test_a_cancel_aborts_what_runs_and_undoes_what_is_done(client, receiver):
    hold = threading.Event()
    receiver.answer("/slow", Reply(hold=hold))
    definition = {
        "steps": [
            {"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")},
            {"name": "slow", "depends_on": ["a"], **http(receiver, "/slow")},
            {"name": "never", "depends_on": ["slow"], **http(receiver, "/never")},
        ]
    }
    made = run(client, definition=definition)
    receiver.wait("/slow")
    answer = client.post(f"/v1/workflows/{made['id']}/cancel", {"compensate": True})
    assert answer.status in (200, 202), answer
    hold.set()
    done = ended(client, made["id"])
    assert (done["status"], done["compensation"]) == ("CANCELLED", "COMPLETE"), done
    assert len(receiver.to("/undo")) == 1 and not receiver.to("/never")
    assert steps(client, made["id"], "?step=a")[("a", None, "COMPENSATION")]["status"] == "COMPLETED"
    assert "compensated" in client.post(f"/v1/workflows/{made['id']}/retry").json["detail"]


def test_a_retry_repeats_the_failed_compensations_of_all_waves(client, receiver):
    for path in ("/undo_a", "/undo_b"):
        receiver.answer(path, Reply(status=400), Reply())
    receiver.answer("/c", Reply(status=400))
    definition = {
        "steps": [
            {"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo_a")},
            {"name": "b", "depends_on": ["a"], **http(receiver, "/b"), "compensate": http(receiver, "/undo_b")},
            {"name": "c", "depends_on": ["b"], **http(receiver, "/c")},
        ]
    }
    made = run(client, definition=definition)["id"]
    done = ended(client, made)
    assert (done["status"], done["compensation"]) == ("FAILED", "INCOMPLETE"), done
    act(client, made, "retry")
    done = ended(client, made)
    assert (done["status"], done["compensation"]) == ("FAILED", "COMPLETE"), done
    assert [c.path for c in receiver.calls if c.path.startswith("/undo")] == ["/undo_b", "/undo_a"] * 2
    assert len(receiver.to("/c")) == 1


def test_each_start_and_end_of_a_retried_run_is_shown(client, receiver):
    receiver.answer("/b", Reply(status=400), Reply(status=400), Reply())
    made = run(client, definition={"steps": [{"name": "b", **http(receiver, "/b")}]})["id"]
    starts, ends = [], []
    for retries in range(3):
        done = ended(client, made)
        assert done["retries"] == retries
        starts.append(done["started_at"])
        ends.append(done["completed_at"])
        if retries < 2:
            act(client, made, "retry")
    assert starts == sorted(set(starts)) and all(end <= start for end, start in zip(ends, starts[1:]))
    history = client.all(f"/v1/tasks/{made}/executions", "executions")
    assert sorted(x["status"] for x in history) == ["COMPLETED", "FAILED", "FAILED"], history
    assert len({x["started_at"] for x in history}) == 3 and set(starts[1:]) <= {x["started_at"] for x in history}


def test_items_of_a_map_are_listed(client, receiver):
    definition = {"steps": [{"name": "each", **http(receiver, "/each", body={"$ref": "/item"}), "map": {"over": {"$ref": "/input"}, "max_concurrent": 2}}]}
    made = run(client, definition=definition, input=[1, 2, 3])
    assert ended(client, made["id"])["status"] == "COMPLETED"
    shown = steps(client, made["id"])
    assert {key[1] for key in shown if key[2] == "ITEM"} == {0, 1, 2}
    assert shown[("each", None, "STEP")]["items"] == {"total": 3, "by_status": {"COMPLETED": 3}}
    page = client.get(f"/v1/workflows/{made['id']}/steps?limit=2").json
    assert len(page["steps"]) == 2
    rest = client.get(f"/v1/workflows/{made['id']}/steps?limit=9&cursor={page['next_cursor']}").json
    assert [x["item"] for x in rest["steps"]] == [1, 2] and rest["next_cursor"] is None
    assert sorted(c.body for c in receiver.to("/each")) == [b"1", b"2", b"3"]


def test_a_run_below_a_run_is_shown_and_cancelled_with_it(client):
    put(client, "inner", {"steps": [{"name": "w", "await": {"signal": "go"}}]})
    made = run(client, definition={"steps": [{"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}]})
    inner = until(lambda: [x for x in steps(client, made["id"]).values() if x["status"] == "RUNNING"])[0]["id"]
    until(lambda: client.get(f"/v1/workflows/{inner}").status == 200 and status(client, inner)["awaiting"])
    assert client.get(f"/v1/workflows/{inner}").json["run"] == made["id"]
    act(client, made["id"], "cancel")
    assert ended(client, inner)["status"] == ended(client, made["id"])["status"] == "CANCELLED"


def test_a_dead_letter_that_is_a_run_is_retried(client, receiver):
    receiver.answer("/b", Reply(status=400), Reply())
    made = run(client, definition={"steps": [{"name": "b", **http(receiver, "/b")}]})
    assert ended(client, made["id"])["status"] == "FAILED"
    assert client.post(f"/v1/dlq/{made['id']}/retry").status == 200
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert client.all("/v1/dlq") == []


def test_a_cancel_counts_while_the_run_is_being_opened(client):
    after = [{"name": f"s{i}", "depends_on": ["w"], "target_type": "NOOP"} for i in range(300)]
    for pause_s in (0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04):
        made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}, *after]})
        time.sleep(pause_s)
        answer = client.post(f"/v1/workflows/{made['id']}/cancel")
        assert answer.status in (200, 202), answer  # 202: it took more than half a second
        assert ended(client, made["id"])["status"] == "CANCELLED"


def test_an_open_run_is_not_deleted(client):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}]})
    until(lambda: status(client, made["id"])["awaiting"])
    assert client.request("DELETE", f"/v1/tasks/{made['id']}").status == 409
    act(client, made["id"], "cancel")
    ended(client, made["id"])
    assert client.request("DELETE", f"/v1/tasks/{made['id']}").status == 204
    assert client.get(f"/v1/workflows/{made['id']}").status == 404


def test_a_key_needs_the_scope_to_signal_for_others(client, server):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go", "approvals": 2}}]})
    key = client.post("/v1/api-keys", {"name": "s", "scopes": ["workflows:signal"]}).json["key"]
    headers = {"Authorization": f"Bearer {key}"}
    url = f"/v1/workflows/{made['id']}/signals/go"
    assert client.request("POST", url, {"by": "ann"}, headers=headers).status == 403
    assert client.request("POST", url, {}, headers=headers).status == 200
    assert client.get(f"/v1/workflows/{made['id']}", headers=headers).status == 403
    act(client, made["id"], "cancel")


def test_task_calls_on_runs_and_their_schedules_need_the_scope_of_workflows(client, receiver):
    """The other scopes are enough for a task, but not for one that is a run or makes runs."""
    receiver.answer("/b", Reply(status=400))
    put(client, "flow", {"steps": STEPS})
    later = run(client, workflow="flow", delay="1d", dedupe_key="one")["id"]
    failed = run(client, definition={"steps": [{"name": "b", **http(receiver, "/b")}]})["id"]
    assert ended(client, failed)["status"] == "FAILED"
    target = {"target_type": "WORKFLOW", "target_config": {"workflow": "flow"}}
    schedule = client.create(interval_seconds=3600, start_time="2099-01-01T00:00:00Z", **target)["id"]
    plain = client.create(target_type="NOOP", delay="1d")["id"]
    key = client.post("/v1/api-keys", {"name": "t", "scopes": ["tasks:read", "tasks:write", "dlq:write", "workflows:read"]}).json["key"]
    ask = lambda method, path, body=None: client.request(method, path, body, headers={"Authorization": f"Bearer {key}"})
    refused = [("POST", "/v1/tasks", {**target, "delay": "1d"}), ("POST", "/v1/tasks/recurring", {**target, "interval_seconds": 60}),
               ("PATCH", f"/v1/tasks/{plain}", target), ("PATCH", f"/v1/tasks/{later}", {"priority": 7}), ("DELETE", f"/v1/tasks/{later}", None),
               ("POST", f"/v1/tasks/{failed}/retry", None), ("POST", f"/v1/dlq/{failed}/retry", None), ("POST", f"/v1/dlq/{failed}/archive", None),
               ("POST", f"/v1/recurring-tasks/{schedule}/trigger-now", None), ("DELETE", f"/v1/recurring-tasks/{schedule}", None),
               ("POST", f"/v1/tasks/{later}/dependencies", {"depends_on": [plain]}), ("POST", "/v1/workflows", {"workflow": "flow"})]
    refused += [("POST", f"/v1/tasks/{later}/{action}", None) for action in ("cancel", "pause", "run-now", "force-complete")]
    for method, path, body in refused:
        answer = ask(method, path, body)
        assert answer.status == 403 and "workflows:write" in answer.json["detail"], (method, path, answer)
    batch = ask("POST", "/v1/tasks/batch", [{"target_type": "NOOP", "delay": "1d"}, {**target, "delay": "1d"}]).json
    assert batch["created"] == 1 and batch["tasks"][1]["error"]["errors"][0]["field"] == "target_type", batch
    moved = ask("POST", "/v1/tasks", {"target_type": "NOOP", "delay": "2d", "dedupe_key": "one", "dedupe_action": "RESCHEDULE"})
    assert moved.status == 409 and "workflows:write" in moved.json["detail"], moved
    job = ask("POST", "/v1/tasks/bulk", {"action": "cancel", "filter": {"all": True}}).json
    job = until(lambda: (x := client.get(f"/v1/jobs/{job['id']}").json)["state"] != "RUNNING" and x)
    assert job["failures"] and all("workflows:write" in x["error"] for x in job["failures"]), job
    assert client.task(plain)["status"] == "CANCELLED"
    assert client.get(f"/v1/workflows/{later}").json["status"] == client.task(schedule)["status"] == "SCHEDULED"
    act(client, later, "cancel")


def explain(client, task_id):
    answer = client.get(f"/v1/tasks/{task_id}/explain")
    assert answer.status == 200, answer
    return answer.json


def test_a_running_step_has_started(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})["id"]
    receiver.wait("/a")
    step = steps(client, made)[("a", None, "STEP")]
    assert step["status"] == "RUNNING" and step["started_at"] >= step["released_at"] and step["waited_ms"] >= 0, step
    assert steps(client, made)[("a", None, "STEP")]["started_at"] == step["started_at"]
    held.set()
    ended(client, made)


def test_explain_speaks_of_runs_and_steps_by_their_names(client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    receiver.answer("/item", Reply(hold=held), Reply(hold=held))
    first = run(client, name="first", concurrency_key="only", definition={"steps": [
        {"name": "a", **http(receiver, "/a")}, {"name": "b", "target_type": "NOOP"},
        {"name": "w", "await": {"signal": "go", "approvals": 2}},
        {"name": "m", "map": {"over": [1, 2], "max_concurrent": 1}, **http(receiver, "/item")},
        {"name": "last", "depends_on": ["a", "b", "w", "m"], "target_type": "NOOP"}]})["id"]
    receiver.wait("/a")
    receiver.wait("/item")
    second = run(client, name="second", concurrency_key="only", definition={"steps": STEPS})["id"]
    until(lambda: status(client, first)["awaiting"] and client.get(f"/v1/workflows/{second}").json["status"] == "BLOCKED")
    until(lambda: steps(client, first)[("m", 1, "ITEM")]["status"] == "BLOCKED")
    ids = {(name, item): x["id"] for (name, item, _), x in steps(client, first).items()}
    told = explain(client, ids[("last", None)])
    assert (told["run"], told["run_name"], told["step"], told["item"], told["gate"]) == (first, "first", "last", None, "dependency"), told
    assert told["explanation"].startswith("step 'last' of the run 'first': it waits for 3 of 4 steps: 'a' (RUNNING), 'w' ("), told
    assert "'m' (RUNNING)" in told["explanation"] and "'b'" not in told["explanation"], told
    told = explain(client, ids[("w", None)])
    assert told["gate"] == "signal" and "step 'w' of the run 'first': it awaits the signal 'go', and 0 of 2 approvals" in told["explanation"], told
    told = explain(client, ids[("m", 1)])
    assert "item 1 of step 'm' of the run 'first': it waits for a slot of its map, which runs 1 at once, held by item 0 of step 'm'" in told["explanation"], told
    assert "it waits for 2 of its 2 items" in explain(client, ids[("m", None)])["explanation"]
    assert "item 0 of step 'm' of the run 'first': " in explain(client, ids[("m", 0)])["explanation"]
    told = explain(client, first)
    assert told["explanation"].startswith("the run 'first': it waits for 4 of 5 steps: 'a' (RUNNING)"), told
    told = explain(client, second)
    assert "the run 'second': it waits for a slot of the concurrency key 'only', held by the run 'first'" in told["explanation"], told
    assert [x["task_id"] for x in told["holders"]] == [first], told
    act(client, second, "cancel")
    held.set()
    until(lambda: client.post(f"/v1/workflows/{first}/cancel").status == 200)
    ended(client, first)


def test_runs_are_listed_by_the_name_of_their_definition(client):
    for name in ("one", "two"):
        put(client, name, {"steps": STEPS})
    made = [run(client, workflow="one", delay="1d" if i % 2 else "0s")["id"] for i in range(5)]
    run(client, workflow="two")
    run(client, definition={"steps": STEPS})
    below = run(client, definition={"steps": [{"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "one"}}]})["id"]
    assert ended(client, below)["status"] == "COMPLETED"
    found, query = [], "?workflow=one&limit=2"
    while query:
        page = client.get(f"/v1/workflows{query}").json
        assert all((x["workflow"], x["version"]) == ("one", 1) for x in page["workflows"]) and len(page["workflows"]) <= 2, page
        found += [x["id"] for x in page["workflows"]]
        query = page["next_cursor"] and f"?workflow=one&limit=2&cursor={page['next_cursor']}"
    assert [x for x in found if x in made] == made[::-1], found
    assert client.get("/v1/workflows?workflow=none").json["workflows"] == []
    assert len(client.get("/v1/workflows?workflow=two&status=ACTIVE,COMPLETED").json["workflows"]) == 1


def test_a_failed_step_is_no_dead_letter_of_its_own(client, receiver):
    receiver.answer("/a", Reply(status=400))
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})["id"]
    assert ended(client, made)["status"] == "FAILED"
    step = steps(client, made)[("a", None, "STEP")]["id"]
    refused = client.post(f"/v1/dlq/{step}/retry")
    assert refused.status == 409 and f"/v1/workflows/{made}/retry" in refused.json["detail"], refused


def test_a_run_is_bound_to_the_definition_that_is_there_when_it_is_created(client, receiver):
    put(client, "flow", {"steps": [{"name": "a", **http(receiver, "/old")}]})
    made = run(client, workflow="flow", delay="1s")
    put(client, "flow", {"steps": [{"name": "a", **http(receiver, "/new")}]})
    assert client.request("DELETE", "/v1/workflow-definitions/flow").status == 204
    done = ended(client, made["id"])
    assert (done["status"], done["version"], done["definition_hash"]) == ("COMPLETED", 1, made["definition_hash"]), done
    assert len(receiver.to("/old")) == 1 and not receiver.to("/new")


def test_a_step_that_awaits_is_not_started(client):
    made = run(client, definition={"steps": [{"name": "before", "await": {"signal": "first"}}, {"name": "w", "depends_on": ["before"], "await": {"signal": "go"}}]})["id"]
    until(lambda: status(client, made)["awaiting"])
    assert "send it" in act(client, made, "steps/before/run-now", {"force": True}, 409)["detail"]
    act(client, made, "steps/w/run-now", {"force": True})  # it waits for its parent: now it awaits its signal
    until(lambda: [x["step"] for x in status(client, made)["awaiting"]] == ["before", "w"])
    for signal in ("go", "first"):
        assert client.post(f"/v1/workflows/{made}/signals/{signal}", {"payload": 1}).status == 200
    assert ended(client, made)["status"] == "COMPLETED"


def test_a_signal_that_is_repeated_after_the_end_is_answered_as_before(client):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}]})["id"]
    send = lambda body: client.post(f"/v1/workflows/{made}/signals/go", body)
    first = send({"payload": {"n": 1}})
    assert ended(client, made)["status"] == "COMPLETED"
    again = send({"payload": {"n": 1}})
    assert (again.status, again.json) == (200, {**first.json, "repeated": True})
    for other in ({"payload": {"n": 2}}, {"payload": {"n": 1}, "by": "ann"}):
        refused = send(other)
        assert refused.status == 409 and "COMPLETED since" in refused.json["detail"], refused


@pytest.mark.standalone("it changes a row of the store's file")
@pytest.mark.own_server
def test_a_run_with_too_many_tasks_fails_with_the_reason(server, client):
    if not (server.data_dir / "belfry.db").exists():
        pytest.skip("only for SQLite")
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "m", "depends_on": ["w"], "map": {"over": [1, 2, 3]}, "target_type": "NOOP"}]})["id"]
    until(lambda: status(client, made)["awaiting"])
    with contextlib.closing(sqlite3.connect(server.data_dir / "belfry.db", timeout=20)) as store, store:
        assert store.execute("UPDATE runs SET tasks = 99999").rowcount == 1
    assert client.post(f"/v1/workflows/{made}/signals/go").status == 200
    done = ended(client, made)
    assert done["status"] == "FAILED" and done["failed_step"] == "m" and "at most 100000 tasks" in done["last_error"], done


def test_attempts_of_steps_are_named_by_run_and_step(client):
    definition = {"steps": [{"name": "a", "target_type": "NOOP"}, {"name": "m", "depends_on": ["a"], "map": {"over": [1, 2]}, "target_type": "NOOP"}]}
    made = run(client, name="named", definition=definition)["id"]
    ended(client, made)
    names = lambda query: [(x.get("run_name"), x.get("step"), x.get("item")) for x in client.get(f"/v1/executions?{query}").json["executions"] if x.get("run") == made]
    until(lambda: len(names("steps=true")) == 4)
    assert sorted(names("steps=true"), key=str) == [("named", "a", None), ("named", "m", 0), ("named", "m", 1), ("named", "m", None)]
    assert names("steps=false") == names("limit=100") == []
    assert client.get("/v1/executions?steps=yes").status == 400


def test_a_run_that_waits_is_edited(client, receiver):
    """It stays bound to a version: to the one that it had, or to the one that the edit names."""
    step = lambda path: {"steps": [{"name": "a", **http(receiver, path, body={"$ref": "/input"})}]}
    put(client, "flow", step("/one"))
    made = run(client, workflow="flow", delay="1d", input=1)
    edit = lambda config: client.request("PATCH", f"/v1/tasks/{made['id']}", {"target_config": config})
    shown = lambda: client.get(f"/v1/workflows/{made['id']}").json
    put(client, "flow", step("/two"))
    assert edit({"input": 2}).status == 200
    assert (shown()["input"], shown()["version"], shown()["definition_hash"]) == (2, 1, made["definition_hash"])
    assert edit({"workflow": "none"}).status == edit({"version": 7}).status == edit({"definition": "0" * 64}).status == 400
    assert edit({"workflow": "flow", "version": 1, "definition": put(client, "flow", step("/two"))["hash"]}).status == 400
    assert edit({"version": 2}).status == 200
    assert (shown()["input"], shown()["workflow"], shown()["version"]) == (2, "flow", 2)
    put(client, "flow", step("/three"))
    client.act(made["id"], "run-now")
    assert ended(client, made["id"])["version"] == 2
    assert [(c.path, c.body) for c in receiver.calls] == [("/two", b"2")]
    plain = client.create(target_type="NOOP", delay="1d")["id"]
    refused = client.request("PATCH", f"/v1/tasks/{plain}", {"target_type": "WORKFLOW", "target_config": {"workflow": "none"}})
    assert refused.status == 400 and refused.json["errors"][0]["field"] == "target_config.workflow", refused


def test_a_posted_definition_replaces_what_holds_the_key(client, receiver):
    """Also a run of another definition, and a task that is none: it becomes a run, with the attempts and the result of one."""
    receiver.answer("/bad", Reply(status=500))
    result = {"steps": STEPS, "result": "done"}
    failing = {"steps": [{"name": "b", "max_retries": 0, **http(receiver, "/bad")}]}
    replace = {"dedupe_key": "k", "dedupe_action": "REPLACE"}
    first = run(client, definition={"steps": STEPS[:1]}, delay="1h", **replace)["id"]
    assert run(client, expect=200, definition=result, delay="0s", **replace)["id"] == first
    assert ended(client, first)["status"] == "COMPLETED" and client.get(f"/v1/workflows/{first}").json["result"] == "done"
    plain = client.create(target_type="NOOP", delay="1h", **replace)["id"]
    held = client.post("/v1/workflows", {"definition": result, "delay": "1h", "dedupe_key": "k"})
    assert held.status == 409 and "no run" in held.json["detail"], held
    assert run(client, expect=200, definition=failing, delay="0s", **replace)["id"] == plain
    assert ended(client, plain)["status"] == "FAILED" and len(receiver.wait("/bad")) == 1
    put(client, "named", result)
    other = client.create(target_type="NOOP", delay="1h")["id"]
    edited = client.request("PATCH", f"/v1/tasks/{other}", {"target_type": "WORKFLOW", "target_config": {"workflow": "named"}})
    assert edited.status == 200 and edited.json["retry"]["max_attempts"] == 1, edited
    assert client.post(f"/v1/tasks/{other}/run-now").status == 200
    assert ended(client, other)["result"] == "done"
