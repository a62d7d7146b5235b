"""What the log says of changes of tasks (event transition)."""

import re

import pytest

from server import Reply, until

pytestmark = pytest.mark.cluster

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{TRACE}-{SPAN}-01", "X-Request-Id": "order-7"}


def transitions(server, task):
    """The lines about a task, of all processes, as dictionaries, in the order of attempts and states."""
    lines = [line for p in server.processes for line in list(p.lines) if "event=transition " in line and f"task={task} " in line]
    found = [{m[1]: m[2].strip('"') for m in re.finditer(r'(\w+)=("[^"]*"|\S+)', line)} for line in lines]
    return sorted(found, key=lambda t: (int(t["attempt"]), t.get("from") == "RUNNING", t["time"]))


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
    assert client.post(f"/v1/workflows/{run}/cancel", headers={"X-Request-Id": "stop-1"}).status == 200
    until(lambda: said("event=workflow_changed ", f"run={run} ", " request=stop-1"))
    refused = {"X-Request-Id": "who-1", "Authorization": "Bearer bf_wrong"}
    assert client.get("/v1/tasks", headers=refused).status == 401
    until(lambda: said("event=api_key_refused ", " request=who-1"))
    before = len(said("request="))
    client.act(nameless, "resume")
    assert not [line for line in said("request=")[before:] if "to=SCHEDULED" in line and nameless in line], "a thread forgets the request"
