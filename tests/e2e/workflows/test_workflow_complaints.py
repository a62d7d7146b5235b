"""What users of other workflow engines complain about, each as a test of ours: WORKFLOWS.md lists the reports. The receiver is the oracle."""

import threading

import pytest

from cluster import LONG
from server import Reply, until
from test_workflows_api import act, ended, http, put, run, status, steps

pytestmark = pytest.mark.tenant

FORKS = 6000 if LONG else 1500
ITEMS = 10_000 if LONG else 1000


def noop(name, *parents, **more):
    return {"name": name, "target_type": "NOOP", **({"depends_on": list(parents)} if parents else {}), **more}


@pytest.mark.cluster(when="always")
def test_a_fan_in_does_not_stick_when_its_parents_end_together(client, receiver):
    """sidekiq#5143, bullmq#3362, conductor#1957, celery#5630, kestra#8609"""
    width = 40
    made = run(client, definition={"steps": [
        *(noop(f"a{i}") for i in range(width)), *(noop(f"b{i}", f"a{i}", f"a{(i + 1) % width}") for i in range(width)),
        {"name": "join", "depends_on": [f"b{i}" for i in range(width)], **http(receiver, "/join")},
        noop("all", *({"step": f"{x}{i}", "type": "MUST_FINISH"} for x in "ab" for i in range(width)), "join")]})
    done = ended(client, made["id"], 60)
    assert done["status"] == "COMPLETED" and done["steps"]["by_status"] == {"COMPLETED": 2 * width + 2}, done
    assert len(receiver.to("/join")) == 1


def test_a_join_of_thousands_of_forks_is_not_too_early(client, receiver):
    """conductor-oss/conductor#18: 6,000 forks; csharp-sdk#158, sidekiq#5068"""
    held = threading.Event()
    receiver.answer("/last", Reply(hold=held))
    names = [f"f{i}" for i in range(FORKS)]
    made = run(client, definition={"steps": [
        *(noop(name) for name in names), {"name": "last", **http(receiver, "/last")},
        {"name": "join", "depends_on": [*names, "last"], **http(receiver, "/join")}]})
    receiver.wait("/last")
    until(lambda: status(client, made["id"])["by_status"].get("COMPLETED") == FORKS, 120, why=lambda: status(client, made["id"]))
    assert status(client, made["id"])["by_status"] == {"COMPLETED": FORKS, "RUNNING": 1, "BLOCKED": 1} and not receiver.to("/join")
    held.set()
    assert ended(client, made["id"], 60)["status"] == "COMPLETED"
    assert receiver.to("/join")[0].received_ms >= receiver.to("/last")[0].answered_ms and len(receiver.to("/join")) == 1


def test_an_empty_map_ends_at_once_and_lets_its_children_run(client, receiver):
    """argo-workflows#3739"""
    made = run(client, input=[], definition={"steps": [
        noop("none", map={"over": {"$ref": "/input"}, "max_concurrent": 1}),
        {"name": "then", "depends_on": ["none"], **http(receiver, "/then", body={"$ref": "/steps/none/output"})}]})
    assert ended(client, made["id"])["status"] == "COMPLETED" and [c.body for c in receiver.to("/then")] == [b"[]"]


def test_a_large_fan_out_ends(client):
    """airflow#45991, #31185, #29959, argo-workflows#4560, #13213, prefect#8770"""
    made = run(client, input=list(range(ITEMS)), definition={"steps": [
        noop("all", map={"over": {"$ref": "/input"}}), noop("join", "all")], "result": {"$ref": "/steps/all/status"}})
    done = ended(client, made["id"], 60)
    assert (done["status"], done["result"]) == ("COMPLETED", "COMPLETED"), done
    assert steps(client, made["id"], "?step=join")[("join", None, "STEP")]["status"] == "COMPLETED"
    assert status(client, made["id"])["by_status"]["COMPLETED"] >= 2


@pytest.mark.cluster(when="always")
def test_the_limit_of_a_map_is_held_and_uses_its_room(client, receiver):
    """kestra#2976, #7933"""
    for i in range(30):
        receiver.answer(f"/{i}", Reply(takes_s=0.05))
    made = run(client, input=list(range(30)), definition={"steps": [
        {"name": "all", "map": {"over": {"$ref": "/input"}, "max_concurrent": 3}, "target_config": {"url": {"$join": [receiver.url("/"), {"$ref": "/index"}]}}}]})
    assert ended(client, made["id"], 60)["status"] == "COMPLETED"
    moments = sorted([(c.received_ms, 1) for c in receiver.calls] + [(c.answered_ms, -1) for c in receiver.calls], key=lambda m: (m[0], m[1]))
    now, most = 0, 0
    for _, change in moments:
        now += change
        most = max(most, now)
    assert len(receiver.calls) == 30 and 2 <= most <= 3, most


def test_a_new_version_does_not_change_what_runs(client, receiver):
    """temporalio/sdk-python#135, airbyte#13973, argo-workflows#13003"""
    before = {"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "old", "depends_on": ["w"], **http(receiver, "/old")}]}
    after = {"steps": [{"name": "v", "await": {"signal": "stop"}}, {"name": "new", "depends_on": ["v"], **http(receiver, "/new")}]}
    put(client, "order", before)
    made = run(client, workflow="order")
    until(lambda: status(client, made["id"])["awaiting"])
    put(client, "order", after)
    assert client.post(f"/v1/workflows/{made['id']}/signals/go").status == 200
    done = ended(client, made["id"])
    assert (done["status"], done["version"]) == ("COMPLETED", 1) and len(receiver.to("/old")) == 1 and not receiver.to("/new")
    assert client.request("DELETE", "/v1/workflow-definitions/order").status == 204
    again = act(client, made["id"], "rerun", {"from": "old"}, expect=201)
    assert ended(client, again["id"])["status"] == "COMPLETED" and len(receiver.to("/old")) == 2


@pytest.mark.cluster(when="always")
def test_a_retry_touches_nothing_that_is_done(client, receiver):
    """argo-workflows#9244, PR 14803"""
    receiver.answer("/b", Reply(status=400), Reply())
    receiver.answer("/i/1", Reply(status=400), Reply(body=b"1"))
    for i in (0, 2):
        receiver.answer(f"/i/{i}", Reply(body=str(i).encode()))
    made = run(client, input=[0, 1, 2], definition={"steps": [
        {"name": "a", **http(receiver, "/a")}, {"name": "b", "depends_on": ["a"], **http(receiver, "/b")},
        {"name": "map", "map": {"over": {"$ref": "/input"}, "max_failures": 0}, "target_config": {"url": {"$join": [receiver.url("/i/"), {"$ref": "/item"}]}}},
        {"name": "c", "depends_on": ["b", "map"], **http(receiver, "/c", body={"$ref": "/steps/map/output"})}]})
    assert ended(client, made["id"])["status"] == "FAILED"
    first = {i: len(receiver.to(f"/i/{i}")) for i in range(3)}
    was = {key: (s["attempts"], s["completed_at"]) for key, s in steps(client, made["id"]).items() if s["status"] == "COMPLETED"}
    act(client, made["id"], "retry")
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert (len(receiver.to("/a")), len(receiver.to("/b")), [c.body for c in receiver.to("/c")]) == (1, 2, [b"[0,1,2]"])
    now = steps(client, made["id"])
    assert {key: (now[key]["attempts"], now[key]["completed_at"]) for key in was} == was
    assert len(receiver.to("/i/1")) == 2 and all(len(receiver.to(f"/i/{i}")) == max(1, first[i]) for i in (0, 2))


@pytest.mark.parametrize("body", [{"$ref": "/item"}, "the same for all"])
def test_a_failed_map_starts_no_further_item(client, receiver, body):
    """Beyond the limit, only items end that ran beside the one that reached it."""
    receiver.answer("/i", *[Reply(status=400)] * 600)
    made = run(client, input=list(range(600)), definition={"steps": [
        {"name": "m", "map": {"over": {"$ref": "/input"}, "max_concurrent": 8, "max_failures": 40}, **http(receiver, "/i", body=body)}]})
    assert ended(client, made["id"])["status"] == "FAILED"
    assert 41 <= len(receiver.to("/i")) <= 41 + 7, len(receiver.to("/i"))
    items = [x for x in steps(client, made["id"], "?limit=1000").values() if x["kind"] == "ITEM"]
    assert len(items) == 600 and {x["last_error"] for x in items if x["status"] == "CANCELLED"} == {"cancelled: too many items of its map have failed"}


def test_a_signal_before_its_await_is_not_lost(client, receiver):
    """inngest#1433, temporal#2694, sdk-dotnet#427"""
    made = run(client, delay="1s", definition={"steps": [noop("a"), {"name": "w", "depends_on": ["a"], "await": {"signal": "go"}}], "result": {"$ref": "/steps/w/output"}})
    assert client.post(f"/v1/workflows/{made['id']}/signals/go", {"by": "ann", "payload": 7}).status == 200
    done = ended(client, made["id"])
    assert done["status"] == "COMPLETED" and [(s["by"], s["payload"]) for s in done["result"]] == [("ann", 7)], done


def test_a_loser_does_not_keep_the_run_open_beyond_its_timeout(client, receiver):
    """inngest-js#1617: of two awaits that race, the loser ends with its timeout, or by hand, and the winner's branch does not wait for it."""
    made = run(client, definition={"steps": [
        {"name": "paid", "await": {"signal": "paid"}}, {"name": "late", "await": {"signal": "late", "timeout": "2s", "on_timeout": None}},
        {"name": "never", "await": {"signal": "never"}},
        {"name": "first", "depends_on": ["paid", "late", "never"], "join": "ANY", **http(receiver, "/first", body={"$ref": "/steps/paid/status"})}]})
    until(lambda: len(status(client, made["id"])["awaiting"]) == 3)
    assert client.post(f"/v1/workflows/{made['id']}/signals/paid").status == 200
    assert [c.body for c in receiver.wait("/first")] == [b"COMPLETED"]
    act(client, made["id"], "steps/never/skip")
    assert ended(client, made["id"])["status"] == "COMPLETED" and len(receiver.to("/first")) == 1


def test_an_approval_in_a_branch_that_was_skipped_is_not_awaited(client, receiver):
    """windmill#2639: and it cannot be given for another branch."""
    made = run(client, input={"amount": 5}, definition={"steps": [
        {"name": "large", **http(receiver, "/large"), "when": {"ref": "/input/amount", "op": "gt", "value": 100}},
        {"name": "sign", "depends_on": ["large"], "await": {"signal": "ok"}},
        {"name": "hold", "await": {"signal": "go"}},
        {"name": "pay", "depends_on": [{"step": "sign", "type": "MUST_SUCCEED"}], **http(receiver, "/pay")},
        {"name": "other", "depends_on": [{"step": "sign", "type": "MUST_NOT_FAIL"}, "hold"], **http(receiver, "/other")}]})
    until(lambda: status(client, made["id"])["by_status"].get("SKIPPED") == 3)
    until(lambda: [a["step"] for a in status(client, made["id"])["awaiting"]] == ["hold"])
    answer = client.post(f"/v1/workflows/{made['id']}/signals/ok")
    assert answer.status == 409, answer
    assert client.post(f"/v1/workflows/{made['id']}/signals/go").status == 200
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert not receiver.to("/pay") and not receiver.to("/large") and len(receiver.to("/other")) == 1


def test_a_timeout_has_a_branch_of_its_own(client, receiver):
    """windmill#3541"""
    made = run(client, definition={"steps": [
        {"name": "sign", "await": {"signal": "ok", "timeout": "1s"}}, {"name": "go", "depends_on": ["sign"], **http(receiver, "/go")},
        {"name": "remind", "depends_on": [{"step": "sign", "type": "MUST_FAIL"}], **http(receiver, "/remind", body={"$ref": "/steps/sign/error"})}]})
    assert ended(client, made["id"])["status"] == "COMPLETED"
    assert b"timed out" in receiver.to("/remind")[0].body and not receiver.to("/go")


@pytest.mark.parametrize("output", [b"", b"\x00\xff\xfe", b"null", b"[" * 5000 + b"]" * 5000, b'{"x": 1e999}', b'{"a": 1, "a": 2}', b'"\\ud800"', b"{" * 100, b"x" * 400_000],
                         ids=["empty", "bytes", "null", "deep", "huge number", "twice", "surrogate", "cut", "large"])
def test_odd_output_does_not_stall_a_run(client, receiver, output):
    """hatchet PR 3276: whoever refers to it gets it or fails, and the run ends."""
    receiver.answer("/odd", Reply(body=output))
    made = run(client, definition={"steps": [
        {"name": "odd", **http(receiver, "/odd")}, {"name": "use", "depends_on": ["odd"], "may_fail": True, **http(receiver, "/use", body={"$ref": "/steps/odd/output", "default": 5})},
        {"name": "when", "depends_on": ["odd"], "may_fail": True, "when": {"ref": "/steps/odd/output", "op": "exists"}, **http(receiver, "/when")},
        {"name": "map", "depends_on": ["odd"], "may_fail": True, "map": {"over": {"$ref": "/steps/odd/output"}}, "target_type": "NOOP"},
        noop("after", {"step": "use", "type": "MUST_FINISH"}, {"step": "when", "type": "MUST_FINISH"}, {"step": "map", "type": "MUST_FINISH"})]})
    done = ended(client, made["id"])
    shown = {key[0]: s["status"] for key, s in steps(client, made["id"]).items()}
    assert done["status"] == "COMPLETED" and shown["odd"] == shown["after"] == "COMPLETED", (done, shown)
