"""What the log says of changes of tasks (event transition)."""

import re
import threading

import pytest

from server import Reply, until
from test_jobs import ask, job_over
from test_workflows_api import act, ended, http, run, steps

pytestmark = pytest.mark.cluster

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{TRACE}-{SPAN}-01", "X-Request-Id": "order-7"}


def transitions(server, task):
    """The lines about a task, of all processes, as dictionaries, in the order of attempts and states."""
    lines = [line for p in server.processes for line in list(p.lines) if "event=transition " in line and f"task={task} " in line]
    found = [{m[1]: m[2].strip('"') for m in re.finditer(r'(\w+)=("[^"]*"|\S+)', line)} for line in lines]
    return sorted(found, key=lambda t: (int(t["attempt"]), t.get("from") == "RUNNING", t["time"]))


def course(server, task):
    """The states of a task, as its lines tell them: each begins where the one before has ended."""
    left, states = sorted(transitions(server, task), key=lambda t: t["time"]), []
    while left:
        line = next((t for t in left if t.get("from") == (states[-1] if states else None)), None)
        if not line:
            return None  # one is missing, or is still to come
        left.remove(line)
        states.append(line["to"])
    return states


def take_course(server, task, *states):
    until(lambda: course(server, task) == list(states), why=lambda: f"{task}: {[(t.get('from'), t['to']) for t in transitions(server, task)]}, not {states}")


def run_failing(server, receiver):
    client = server.client()
    receiver.answer("/fails", Reply(503), Reply(200))
    body = {"queue": "mail", "retry": {"base_delay_ms": 50, "jitter": "NONE"}, **receiver.target("/fails")}
    task = client.post("/v1/tasks", body, headers=HEADERS).json
    client.wait_for(task["id"], "COMPLETED")
    return task["id"]


def test_failures_are_logged_with_trace_and_request(make_server, receiver):
    server = make_server()
    task = run_failing(server, receiver)
    [line] = until(lambda: transitions(server, task))
    want = {"from": "RUNNING", "to": "SCHEDULED", "attempt": "1", "fence": "1", "queue": "mail", "tenant": "1", "trace": TRACE, "request": "order-7"}
    assert want.items() <= line.items(), line
    assert re.fullmatch("[0-9a-f]{16}", line["span"]) and line["span"] != SPAN and "503" in line["error"]
    assert re.fullmatch(r".+:\d+", line["node"]) and line["level"] == "info"


@pytest.mark.cluster(when="always")
def test_all_logs_the_whole_course(make_server, receiver):
    server = make_server(env={"BELFRY_LOG_TRANSITIONS": "all"})
    task = run_failing(server, receiver)
    seen = until(lambda: (v := transitions(server, task)) and v[-1]["to"] == "COMPLETED" and v)
    assert [(t.get("from"), t["to"], t["attempt"]) for t in seen] == [
        (None, "SCHEDULED", "0"), ("SCHEDULED", "RUNNING", "1"), ("RUNNING", "SCHEDULED", "1"),
        ("SCHEDULED", "RUNNING", "2"), ("RUNNING", "COMPLETED", "2")]
    assert {t["request"] for t in seen} == {"order-7"} and {t["trace"] for t in seen} == {TRACE}
    assert seen[1]["span"] == seen[2]["span"] != seen[3]["span"] == seen[4]["span"]
    client = server.client()
    paused = client.create(delay="1h", target_type="NOOP")["id"]
    client.act(paused, "pause")
    client.act(paused, "cancel")
    seen = until(lambda: len(v := transitions(server, paused)) == 3 and v)
    assert [(t.get("from"), t["to"]) for t in seen] == [(None, "SCHEDULED"), ("SCHEDULED", "PAUSED"), ("PAUSED", "CANCELLED")]
    leased = client.create(queue="outside", target_type="WORKER")["id"]
    node = server.turn()
    [lease] = client.post("/v1/leases", {"queue": "outside", "wait_seconds": 10}, node=node).json["leases"]
    assert client.post(f"/v1/leases/{lease['id']}/complete", {}, node=node).status == 200
    seen = until(lambda: len(v := transitions(server, leased)) == 3 and v)
    assert [t["to"] for t in seen] == ["SCHEDULED", "RUNNING", "COMPLETED"]


def test_what_ends_without_an_attempt_is_logged(make_server):
    """By default an expiry, which is a failure. With all, also a cancel of a task that is claimed ahead."""
    server = make_server(env={"BELFRY_LOG_TRANSITIONS": "failures"})
    client = server.client()
    expired = client.create(queue="outside", target_type="WORKER", expires_after_seconds=1)["id"]
    [line] = until(lambda: transitions(server, expired))
    assert (line["from"], line["to"]) == ("SCHEDULED", "EXPIRED") and "no worker leased it" in line["error"]


@pytest.mark.standalone("it sets the clock")
def test_missed_occurrences_and_claims_that_are_cancelled_are_logged(make_server, clock):
    server = make_server(env={"BELFRY_LOG_TRANSITIONS": "all", **clock.env})
    client = server.client()
    task = client.create(interval_seconds=60, catch_up_mode="SKIP_MISSED", target_type="NOOP")["id"]
    claimed = client.create(delay="5s", target_type="NOOP")["id"]
    until(lambda: "belfry_tasks_ahead 1" in client.get("/metrics").body.decode())
    client.act(claimed, "cancel")
    seen = until(lambda: len(v := transitions(server, claimed)) == 2 and v)
    assert [(t.get("from"), t["to"]) for t in seen] == [(None, "SCHEDULED"), ("SCHEDULED", "CANCELLED")]
    clock.jump(300_000)
    skips = lambda: [line for line in list(server.lines) if "event=transition " in line and f"parent={task} " in line and "to=SKIPPED " in line]
    until(skips, why=lambda: server.log()[-2000:])


@pytest.mark.standalone("a setting of the log")
def test_none_logs_nothing(make_server, receiver):
    server = make_server(env={"BELFRY_LOG_TRANSITIONS": "none"})
    task = run_failing(server, receiver)
    server.stop()
    assert not transitions(server, task)


@pytest.mark.cluster(when="always")
def test_lines_that_are_written_for_a_request_name_it(make_server):
    """On pool threads, after the commit, and when an owner was asked. A line about a task that another request made names both."""
    server = make_server(env={"BELFRY_LOG_TRANSITIONS": "all"})
    client = server.client()
    said = lambda *words: [line for p in server.processes for line in list(p.lines) if all(word in line for word in words)]
    task = client.post("/v1/tasks", {"delay": "1h", "target_type": "NOOP"}, headers=HEADERS).json["id"]
    nameless = client.create(delay="1h", target_type="NOOP")["id"]
    for made, request in ((task, "pause-1"), (nameless, "pause-2")):
        assert client.post(f"/v1/tasks/{made}/pause", headers={"X-Request-Id": request}).status == 200
    until(lambda: said("event=transition ", f"task={task} ", "to=PAUSED", "request=order-7", "by_request=pause-1"), why=server.log)
    until(lambda: said("event=transition ", f"task={nameless} ", "to=PAUSED", " request=pause-2"))
    assert not said(f"task={task} ", "to=SCHEDULED", "by_request")
    run = client.post("/v1/workflows", {"definition": {"steps": [{"name": "w", "await": {"signal": "go"}}]}}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{run}/status").json["awaiting"])
    assert client.post(f"/v1/workflows/{run}/cancel", headers={"X-Request-Id": "stop-1"}).status in (200, 202)
    until(lambda: said("event=workflow_changed ", f"run={run} ", " request=stop-1"))
    refused = {"X-Request-Id": "who-1", "Authorization": "Bearer bf_wrong"}
    assert client.get("/v1/tasks", headers=refused).status == 401
    until(lambda: said("event=api_key_refused ", " request=who-1"))
    before = len(said("request="))
    client.act(nameless, "resume")
    assert not [line for line in said("request=")[before:] if "to=SCHEDULED" in line and nameless in line], "a thread forgets the request"


@pytest.mark.cluster(when="always")
def test_tasks_that_change_with_others_have_lines(make_server, receiver):
    """What depends on a task, what waits for its slot, what a bulk job changes, and the occurrences of a schedule."""
    server = make_server(env={"BELFRY_LOG_TRANSITIONS": "all"})
    client = server.client()
    receiver.answer("/fails", Reply(400))
    parent = client.create(delay="1h", **receiver.target("/fails"))["id"]
    child = client.create(depends_on=[parent], queue="mail", target_type="NOOP")["id"]
    grandchild = client.create(depends_on=[child], target_type="NOOP")["id"]
    alarm = client.create(depends_on=[{"task": parent, "type": "MUST_FAIL"}], target_type="NOOP")["id"]
    client.act(parent, "run-now")
    take_course(server, parent, "SCHEDULED", "RUNNING", "FAILED")
    take_course(server, alarm, "BLOCKED", "SCHEDULED", "RUNNING", "COMPLETED")
    take_course(server, child, "BLOCKED", "SKIPPED")
    take_course(server, grandchild, "BLOCKED", "SKIPPED")
    skipped = transitions(server, child)[-1]
    assert parent in skipped["reason"] and skipped["queue"] == "mail" and skipped["tenant"] == "1" and len(skipped["trace"]) == 32, skipped
    take_course(server, client.create(depends_on=[parent], target_type="NOOP")["id"], "SKIPPED")
    held = threading.Event()
    receiver.answer("/held", Reply(200, hold=held))
    first = client.create(concurrency_key="db", **receiver.target("/held"))["id"]
    receiver.wait("/held")
    second = client.create(concurrency_key="db", target_type="NOOP")["id"]
    client.wait_for(second, "BLOCKED")
    held.set()
    take_course(server, second, "SCHEDULED", "BLOCKED", "SCHEDULED", "RUNNING", "COMPLETED")
    take_course(server, first, "SCHEDULED", "RUNNING", "COMPLETED")
    waits = [client.create(delay="1h", queue="bulk", target_type="NOOP")["id"] for _ in range(3)]
    for action in ("pause", "cancel"):
        job_over(client, ask(client, "/v1/tasks/bulk", action=action, filter={"queue": "bulk"}))
    for task in waits:
        take_course(server, task, "SCHEDULED", "PAUSED", "CANCELLED")


@pytest.mark.cluster(when="always")
def test_the_steps_of_a_run_have_lines(make_server, receiver):
    server = make_server(env={"BELFRY_LOG_TRANSITIONS": "all"})
    client = server.client()
    waits = {"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "b", "depends_on": ["w"], "target_type": "NOOP"}]}
    made = run(client, definition=waits)["id"]
    until(lambda: client.get(f"/v1/workflows/{made}/status").json["awaiting"])
    act(client, made, "pause")
    act(client, made, "resume")
    assert client.post(f"/v1/workflows/{made}/cancel", headers={"X-Request-Id": "stop-1"}).status in (200, 202)
    assert ended(client, made)["status"] == "CANCELLED"
    by = {name: x["id"] for (name, _, kind), x in steps(client, made).items() if kind == "STEP"}
    take_course(server, made, "SCHEDULED", "RUNNING", "CANCELLED")
    take_course(server, by["w"], "SCHEDULED", "BLOCKED", "PAUSED", "BLOCKED", "CANCELLED")
    take_course(server, by["b"], "BLOCKED", "PAUSED", "BLOCKED", "CANCELLED")
    last = transitions(server, by["b"])[-1]
    assert last["request"] == "stop-1" and last["reason"], last

    receiver.answer("/fails", Reply(400), Reply(200))
    fails = {"steps": [{"name": "a", **http(receiver, "/fails")}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"}]}
    made = run(client, definition=fails)["id"]
    assert ended(client, made)["status"] == "FAILED"
    by = {name: x["id"] for (name, _, kind), x in steps(client, made).items() if kind == "STEP"}
    take_course(server, made, "SCHEDULED", "RUNNING", "FAILED")
    take_course(server, by["a"], "SCHEDULED", "RUNNING", "FAILED")
    take_course(server, by["b"], "BLOCKED", "SKIPPED")
    act(client, made, "retry")
    assert ended(client, made)["status"] == "COMPLETED"
    take_course(server, made, "SCHEDULED", "RUNNING", "FAILED", "SCHEDULED", "RUNNING", "COMPLETED")
    take_course(server, by["a"], "SCHEDULED", "RUNNING", "FAILED", "SCHEDULED", "RUNNING", "COMPLETED")
    take_course(server, by["b"], "BLOCKED", "SKIPPED", "BLOCKED", "SCHEDULED", "RUNNING", "COMPLETED")

    made = run(client, definition=waits, deadline_seconds=1)["id"]
    assert ended(client, made)["status"] == "FAILED"
    by = {name: x["id"] for (name, _, kind), x in steps(client, made).items() if kind == "STEP"}
    take_course(server, by["b"], "BLOCKED", "CANCELLED")
    assert "deadline" in transitions(server, by["b"])[-1]["reason"]


def test_occurrences_that_overlap_or_end_with_their_schedule_have_lines(make_server, receiver):
    server = make_server(env={"BELFRY_LOG_TRANSITIONS": "all"})
    client = server.client()
    held = threading.Event()
    receiver.answer("/held", Reply(200, hold=held))
    skips, waits = (client.create(interval_seconds=1, overlap_policy=policy, **receiver.target("/held"))["id"] for policy in ("SKIP", "QUEUE_ALL"))

    def seen(task, *words):
        lines = [line for p in server.processes for line in list(p.lines) if "event=transition " in line and f"parent={task} " in line]
        return [line for line in lines if all(word in line for word in words)]

    until(lambda: seen(skips, "from=SCHEDULED to=SKIPPED ", "reason="), why=server.log)
    until(lambda: seen(waits, "from=SCHEDULED to=BLOCKED "), why=server.log)
    client.act(waits, "cancel")
    until(lambda: seen(waits, "from=BLOCKED to=CANCELLED ", "its schedule was cancelled"), why=server.log)
    held.set()


def test_by_default_what_changes_with_a_failure_has_no_lines(make_server, receiver):
    server = make_server()
    client = server.client()
    receiver.answer("/fails", Reply(400))
    parent = client.create(delay="1h", **receiver.target("/fails"))["id"]
    child = client.create(depends_on=[parent], target_type="NOOP")["id"]
    client.act(parent, "run-now")
    client.wait_for(child, "SKIPPED")
    [line] = until(lambda: transitions(server, parent))
    assert (line["from"], line["to"]) == ("RUNNING", "FAILED")
    assert not transitions(server, child)
