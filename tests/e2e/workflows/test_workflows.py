"""What runs of workflows do, on the real server with the receiver as oracle: joins, data, maps, awaits, undoing, deadlines, kills."""

import collections
import threading
import time

import pytest

from server import Reply, at, until
from test_workflows_api import act, ended, http, put, run, status, steps

pytestmark = pytest.mark.tenant


def undo(receiver, path):
    return {"compensate": {"target_config": {"url": receiver.url(path), "body": {"$ref": "/output"}}}}


def test_skips_follow_conditions_and_types_of_edges(client, receiver):
    receiver.answer("/charge", Reply(body=b'{"amount": 10}'))
    receiver.answer("/bad", Reply(status=400))
    made = run(client, definition={
        "steps": [
            {"name": "charge", **http(receiver, "/charge")},
            {"name": "sign", "depends_on": ["charge"], "await": {"signal": "ok"}, "when": {"ref": "/steps/charge/output/amount", "op": "gt", "value": 1000}},
            {"name": "ship", "depends_on": [{"step": "sign", "type": "MUST_NOT_FAIL"}], **http(receiver, "/ship")},
            {"name": "strict", "depends_on": ["sign"], **http(receiver, "/strict")},
            {"name": "bad", "depends_on": ["charge"], "may_fail": True, **http(receiver, "/bad")},
            {"name": "alert", "depends_on": [{"step": "bad", "type": "MUST_FAIL"}], **http(receiver, "/alert", body={"why": {"$ref": "/steps/bad/error"}})},
            {"name": "last", "depends_on": [{"step": "bad", "type": "MUST_FINISH"}, {"step": "strict", "type": "MUST_FINISH"}], **http(receiver, "/last")},
        ],
    })
    done = ended(client, made["id"])
    shown = {key[0]: step["status"] for key, step in steps(client, made["id"]).items()}
    assert shown == {"charge": "COMPLETED", "sign": "SKIPPED", "ship": "COMPLETED", "strict": "SKIPPED", "bad": "FAILED", "alert": "COMPLETED", "last": "COMPLETED"}
    assert done["status"] == "COMPLETED", done
    assert steps(client, made["id"])[("strict", None, "STEP")]["last_error"] == "skipped: it depends on 'sign' with MUST_SUCCEED, which is SKIPPED"
    assert b"400" in receiver.to("/alert")[0].body and not receiver.to("/strict")


def test_a_failure_that_a_step_handles_is_not_the_one_that_fails_the_run(client, receiver):
    receiver.answer("/bad", Reply(status=400))
    made = run(client, definition={"steps": [
        {"name": "handled", **http(receiver, "/bad")}, {"name": "handler", "depends_on": [{"step": "handled", "type": "MUST_FAIL"}], "target_type": "NOOP"},
        {"name": "bad", "depends_on": ["handler"], **http(receiver, "/bad")}]})
    done = ended(client, made["id"])
    assert (done["status"], done["failed_step"]) == ("FAILED", "bad") and "'bad'" in done["last_error"], done


def test_a_worker_step_that_nobody_leases_expires_and_its_handler_runs(client, receiver):
    made = run(client, definition={"steps": [
        {"name": "work", "target_type": "WORKER", "queue": "nobody", "expires_after_seconds": 1},
        {"name": "late", "depends_on": [{"step": "work", "type": "MUST_FAIL"}], **http(receiver, "/late")}]})
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and len(receiver.to("/late")) == 1, done
    assert steps(client, made["id"])[("work", None, "STEP")]["status"] == "EXPIRED"


def test_a_map_runs_its_items_a_few_at_a_time(client, receiver):
    items = list(range(25))
    for i in items:
        receiver.answer(f"/item/{i}", Reply(body=str(i * i).encode(), takes_s=0.05))
    made = run(client, input={"items": items}, definition={
        "steps": [
            {"name": "all", "map": {"over": {"$ref": "/input/items"}, "max_concurrent": 4},
             "target_config": {"url": {"$join": [receiver.url("/item/"), {"$ref": "/item"}]}, "body": {"n": {"$ref": "/item"}, "i": {"$ref": "/index"}}}},
            {"name": "sum", "depends_on": ["all"], **http(receiver, "/sum", body={"$ref": "/steps/all/output"})},
        ],
        "result": {"$ref": "/steps/all/output"},
    })
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and done["result"] == [i * i for i in items], done
    calls = [receiver.to(f"/item/{i}") for i in items]
    assert all(len(x) == 1 for x in calls)
    times = sorted((x[0].received_ms, x[0].received_ms + 50) for x in calls)
    for start, _ in times:
        assert sum(a <= start < b - 10 for a, b in times) <= 4
    assert len(receiver.to("/sum")) == 1


def test_a_map_without_items_is_completed(client, receiver):
    made = run(client, input=[], definition={
        "steps": [{"name": "all", "map": {"over": {"$ref": "/input"}}, "target_type": "NOOP"}, {"name": "then", "depends_on": ["all"], **http(receiver, "/then", body={"$ref": "/steps/all/output"})}],
    })
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert receiver.to("/then")[0].body == b"[]"


def test_a_map_stops_when_too_many_items_fail(client, receiver):
    for i in range(40):
        receiver.answer(f"/{i}", Reply(status=400 if i < 3 else 200, takes_s=0.1))
    made = run(client, input=list(range(40)), definition={
        "steps": [{"name": "all", "map": {"over": {"$ref": "/input"}, "max_concurrent": 2, "max_failures": 1},
                   "target_config": {"url": {"$join": [receiver.url("/"), {"$ref": "/item"}]}}}],
    })
    done = ended(client, made["id"])
    assert done["status"] == "FAILED" and "items failed" in done["last_error"], done
    by = collections.Counter(x["status"] for x in steps(client, made["id"], "?limit=1000").values())
    assert by["CANCELLED"] >= 5 and by["FAILED"] >= 3, by


def test_a_map_that_fails_lets_its_running_items_end(client, receiver):
    first, held = threading.Event(), threading.Event()
    receiver.answer("/0", Reply(status=400, hold=first))
    receiver.answer("/1", Reply(hold=held))
    made = run(client, input=[0, 1, 2], definition={
        "steps": [{"name": "all", "map": {"over": {"$ref": "/input"}, "max_concurrent": 2},
                   "target_config": {"url": {"$join": [receiver.url("/"), {"$ref": "/item"}]}}}],
    })["id"]
    receiver.wait("/1")
    first.set()
    until(lambda: steps(client, made)[("all", 0, "ITEM")]["status"] == "FAILED")
    held.set()
    assert ended(client, made)["status"] == "FAILED"
    shown = steps(client, made)
    assert [shown[("all", i, "ITEM")]["status"] for i in (0, 1)] == ["FAILED", "COMPLETED"], shown
    assert shown[("all", 2, "ITEM")]["status"] in ("CANCELLED", "COMPLETED")  # it may have got the slot of the first


def test_an_item_is_undone_with_its_own_data(client, receiver):
    receiver.answer("/fails", Reply(status=400))
    made = run(client, input=[{"id": 7}, {"id": 8}], definition={"steps": [
        {"name": "all", "map": {"over": {"$ref": "/input"}}, **http(receiver, "/do", body={"$ref": "/item"}),
         "compensate": http(receiver, "/undo", body={"of": {"$ref": "/item/id"}, "at": {"$ref": "/index"}})},
        {"name": "fails", "depends_on": ["all"], **http(receiver, "/fails")}]})["id"]
    assert ended(client, made)["compensation"] == "COMPLETE"
    assert sorted(c.body for c in receiver.to("/undo")) == [b'{"of":7,"at":0}', b'{"of":8,"at":1}']


def test_what_was_done_is_undone_in_the_opposite_order(client, receiver):
    for name in "abc":
        receiver.answer(f"/{name}", Reply(body=f'{{"id": "{name}"}}'.encode()))
    receiver.answer("/fails", Reply(status=400))
    definition = {
        "steps": [
            {"name": "a", **http(receiver, "/a"), **undo(receiver, "/undo/a")},
            {"name": "b", "depends_on": ["a"], **http(receiver, "/b"), **undo(receiver, "/undo/b")},
            {"name": "c", "depends_on": ["a"], **http(receiver, "/c"), **undo(receiver, "/undo/c")},
            {"name": "fails", "depends_on": ["b", "c"], **http(receiver, "/fails"), **undo(receiver, "/undo/fails")},
            {"name": "never", "depends_on": ["fails"], **http(receiver, "/never"), **undo(receiver, "/undo/never")},
        ],
    }
    made = run(client, definition=definition)
    done = ended(client, made["id"])
    assert done["status"] == "FAILED" and done["compensation"] == "COMPLETE" and done["failed_step"] == "fails", done
    undone = [c.path for c in receiver.calls if c.path.startswith("/undo/")]
    assert sorted(undone) == ["/undo/a", "/undo/b", "/undo/c"] and undone[-1] == "/undo/a", undone
    assert receiver.to("/undo/a")[0].body == b'{"id":"a"}' or receiver.to("/undo/a")[0].body == b'{"id": "a"}'
    assert client.post(f"/v1/workflows/{made['id']}/retry").status == 409


def test_a_cancelled_run_undoes_only_if_asked(client, receiver):
    receiver.answer("/a", Reply(body=b"1"))
    definition = {"steps": [{"name": "a", **http(receiver, "/a"), **undo(receiver, "/undo")}, {"name": "w", "depends_on": ["a"], "await": {"signal": "go"}}]}
    for compensate in (False, True):
        made = run(client, definition=definition)
        until(lambda: status(client, made["id"])["awaiting"])
        answer = client.post(f"/v1/workflows/{made['id']}/cancel", {"compensate": compensate})
        assert answer.status in (200, 202), answer
        assert ended(client, made["id"])["status"] == "CANCELLED"
        assert len(receiver.to("/undo")) == compensate


def test_more_runs_than_the_planner_takes_at_once(client, receiver):
    """They wait in a line of the node. A run that is cancelled there does not begin."""
    put(client, "many", {"steps": [{"name": "a", "target_type": "NOOP"}, {"name": "b", "depends_on": ["a"], **http(receiver, "/b", body={"$ref": "/input"})}]})
    due_s = time.time() + 3
    made = [run(client, workflow="many", input=i, run_at=at(due_s * 1000))["id"] for i in range(300)]
    time.sleep(max(0, due_s - time.time()))
    cancelled = [one for one in made[::7] if client.post(f"/v1/workflows/{one}/cancel", {}).status in (200, 202)]
    states = [ended(client, one, seconds=60)["status"] for one in made]
    assert set(states) <= {"COMPLETED", "CANCELLED"}, states
    assert {one for one, state in zip(made, states) if state == "CANCELLED"} <= set(cancelled)
    called = collections.Counter(int(call.body) for call in receiver.to("/b"))
    assert {i for i, state in enumerate(states) if state == "COMPLETED"} <= set(called) and set(called.values()) == {1}, called


def test_a_run_is_stopped_at_its_deadline(client, receiver):
    made = run(client, deadline_seconds=0.5, definition={
        "steps": [{"name": "w", "await": {"signal": "never"}}, {"name": "b", "depends_on": [{"step": "w", "type": "MUST_FINISH"}], **http(receiver, "/b")}],
    })
    done = ended(client, made["id"])
    assert done["status"] == "FAILED" and "deadline" in done["last_error"], done
    assert not receiver.to("/b")
    quick = run(client, deadline_seconds=3600, definition={"steps": [{"name": "a", "target_type": "NOOP"}]})
    assert ended(client, quick["id"])["status"] == "COMPLETED"
    assert client.get("/v1/tasks?status=SCHEDULED").json["tasks"] == []


def test_a_workflow_within_a_workflow(client, receiver):
    receiver.answer("/double", Reply(body=b'{"v": 42}'))
    put(client, "inner", {"steps": [{"name": "d", **http(receiver, "/double", body={"$ref": "/input/n"})}], "result": {"$ref": "/steps/d/output/v"}})
    made = run(client, input={"n": 21}, definition={
        "steps": [
            {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "inner", "input": {"n": {"$ref": "/input/n"}}}},
            {"name": "use", "depends_on": ["sub"], **http(receiver, "/use", body={"$ref": "/steps/sub/output"})},
        ],
        "result": {"$ref": "/steps/sub/output"},
    })
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and done["result"] == 42, done
    assert receiver.to("/double")[0].body == b"21" and receiver.to("/use")[0].body == b"42"


def test_a_signal_that_comes_first_is_not_lost(client, receiver):
    held = threading.Event()
    receiver.answer("/slow", Reply(hold=held))
    made = run(client, definition={"steps": [{"name": "slow", **http(receiver, "/slow")}, {"name": "w", "depends_on": ["slow"], "await": {"signal": "go"}}]})
    receiver.wait("/slow")
    assert client.post(f"/v1/workflows/{made['id']}/signals/go", {"payload": {"early": True}}).status == 200
    held.set()
    assert ended(client, made["id"])["status"] == "COMPLETED"


def test_an_await_times_out(client):
    made = run(client, definition={
        "steps": [{"name": "w", "await": {"signal": "go", "timeout": "1s", "on_timeout": {"late": True}}}, {"name": "v", "await": {"signal": "go", "timeout": "1s"}, "may_fail": True}],
        "result": {"$ref": "/steps/w/output"},
    })
    begin = time.monotonic()
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and done["result"] == {"late": True} and time.monotonic() - begin < 8, done
    assert "timed out" in steps(client, made["id"])[("v", None, "STEP")]["last_error"]


def test_a_rejection_fails_the_step(client):
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go", "approvals": 2}}]})
    until(lambda: status(client, made["id"])["awaiting"])
    answer = client.post(f"/v1/workflows/{made['id']}/signals/go", {"decision": "REJECT", "by": "ann"})
    assert answer.status == 200 and (answer.json["received"], answer.json["rejections"]) == (0, 1), answer
    done = ended(client, made["id"])
    assert done["status"] == "FAILED" and "rejected by ann" in done["last_error"], done


def test_a_delay_counts_from_the_release(client, receiver):
    receiver.answer("/a", Reply(takes_s=0.3))
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "b", "delay": "1s", "depends_on": ["a"], **http(receiver, "/b")}]})
    assert ended(client, made["id"])["status"] == "COMPLETED"
    waited = receiver.to("/b")[0].received_ms - receiver.to("/a")[0].received_ms
    assert 1290 <= waited < 4000, waited


def test_data_that_cannot_be_used_fails_who_refers_to_it(client, receiver):
    receiver.answer("/text", Reply(body=b"not json"))
    receiver.answer("/large", Reply(body=b'"' + b"x" * 300_000 + b'"'))
    for path, says in (("/text", "no JSON"), ("/large", "too large")):
        made = run(client, definition={"steps": [{"name": "a", **http(receiver, path)}, {"name": "b", "depends_on": ["a"], **http(receiver, "/b", body={"$ref": "/steps/a/output/x"})}]})
        done = ended(client, made["id"])
        assert done["status"] == "FAILED" and done["failed_step"] == "b" and says in done["last_error"], done
    assert not receiver.to("/b")


def test_a_leased_step_gets_its_data(client, receiver):
    receiver.answer("/a", Reply(body=b'{"n": 5}'))
    made = run(client, definition={
        "steps": [{"name": "a", **http(receiver, "/a")}, {"name": "work", "depends_on": ["a"], "target_type": "WORKER", "queue": "jobs", "payload": {"n": {"$ref": "/steps/a/output/n"}}}],
        "result": {"$ref": "/steps/work/output"},
    })
    lease = until(lambda: client.post("/v1/leases", {"queue": "jobs", "max": 1, "wait_seconds": 5}).json["leases"])[0]
    assert lease["task"]["payload"] == {"n": 5}, lease
    assert client.post(f"/v1/leases/{lease['id']}/complete", {"result": {"done": 25}}).status == 200
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and done["result"] == {"done": 25}, done


def test_a_deadline_that_passes_while_the_server_is_dead_ends_the_run(make_server, receiver):
    """One step is done, one is being called, one waits: the run is FAILED by its deadline, and what it did is undone once."""
    held = threading.Event()
    receiver.answer("/slow", *[Reply(hold=held)] * 2)
    server = make_server()
    client = server.client()
    made = run(client, deadline_seconds=2, definition={"steps": [
        {"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")},
        {"name": "slow", "depends_on": ["a"], **http(receiver, "/slow")},
        {"name": "late", "depends_on": ["slow"], **http(receiver, "/late")}, {"name": "w", "await": {"signal": "go"}}]})["id"]
    receiver.wait("/slow")
    server.kill()
    time.sleep(2)  # until the deadline is over
    server.start()
    client = server.client()
    done = ended(client, made)
    assert (done["status"], done["compensation"]) == ("FAILED", "COMPLETE") and "deadline" in done["last_error"], done
    shown = {name: (s["status"], s["last_error"]) for (name, _, kind), s in steps(client, made).items() if kind == "STEP"}
    stopped = ("CANCELLED", "cancelled: its run was not over at its deadline")
    assert shown == {"a": ("COMPLETED", None), "slow": stopped, "late": stopped, "w": stopped}, shown
    assert len(receiver.to("/undo")) == 1 and not receiver.to("/late")
    held.set()


@pytest.mark.parametrize("kills", [3])
def test_a_run_survives_kills(make_server, receiver, kills):
    server = make_server()
    client = server.client()
    width, depth = 6, 8
    all_steps = [{"name": f"s{d}-{w}", "depends_on": [f"s{d - 1}-{x}" for x in (w, (w + 1) % width)] if d else [], **http(receiver, f"/{d}/{w}")} for d in range(depth) for w in range(width)]
    for step in all_steps:
        if not step["depends_on"]:
            del step["depends_on"]
    for d in range(depth):
        for w in range(width):
            receiver.answer(f"/{d}/{w}", Reply(takes_s=0.05))
    made = run(client, definition={"steps": all_steps})
    for i in range(kills):
        receiver.wait(f"/{2 * i + 1}/0")
        server.kill()
        server.start()
        client = server.client()
    done = ended(client, made["id"], 40)
    assert done["status"] == "COMPLETED", done
    first = {c.path: c.received_ms for c in reversed(receiver.calls)}
    for d in range(1, depth):
        for w in range(width):
            for parent in (w, (w + 1) % width):
                assert first[f"/{d}/{w}"] >= first[f"/{d - 1}/{parent}"]
    assert len(receiver.calls) <= width * depth + kills * 2 * width
