"""What fires, when, how often and with what, on the real server: the receiver's log against what was asked for."""

import concurrent.futures
import email.utils
import pathlib
import random
import re
import socket
import threading
import time

import pytest

from server import Reply, at, now_ms, to_ms, until

pytestmark = [pytest.mark.tenant, pytest.mark.cluster]

HOUR_MS = 3600 * 1000


def marker(client, receiver, delay="0s"):
    """Runs a task and returns once it ended: everything due before it has fired, or does not."""
    client.wait_for(client.create(name="marker", delay=delay, **receiver.target("/marker"))["id"], "COMPLETED")


# ----------------------------------------------------------------------------------------------------------------------
# one-time tasks


def test_a_one_time_task_fires_at_its_time_with_the_headers_promised(client, receiver):
    due_ms = int(now_ms()) + 400
    task = client.create(name="greet", run_at=at(due_ms),
                         **receiver.target("/hook?x=1", method="PUT", headers={"X-Team": "a"}, body={"hello": "wörld", "n": 1.0}))
    call = receiver.wait("/hook?x=1")[0]
    assert call.received_ms >= due_ms
    assert (call.method, call.body.decode()) == ("PUT", '{"hello": "w\\u00f6rld", "n": 1.0}')
    assert call.headers["x-team"] == "a" and call.headers["content-type"] == "application/json"
    assert call.id == call.task == call.headers["idempotency-key"] == call.headers["x-idempotency-key"] == task["id"]
    assert (call.attempt, call.fence, call.scheduled_ms) == (1, 1, due_ms)
    assert abs(int(call.headers["webhook-timestamp"]) - call.received_ms / 1000) < 30
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", call.headers["traceparent"])
    done = client.wait_for(task["id"], "COMPLETED")
    assert done["attempts"] == 1 and done["next_execution"] is None and done["last_error"] is None
    assert to_ms(done["started_at"]) >= due_ms and to_ms(done["completed_at"]) >= to_ms(done["started_at"])
    [execution] = client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]
    assert execution["status"] == "COMPLETED" and execution["http_status"] == 200 and execution["output"] == "ok"
    assert execution["trace_id"] == call.headers["traceparent"].split("-")[1]
    assert execution["attempt_number"] == 1 and execution["delay_ms"] >= 0 and execution["worker"]


@pytest.mark.cluster(when="always")
def test_a_task_continues_the_trace_of_its_caller_in_all_attempts(client, receiver):
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    receiver.answer("/traced", Reply(503), Reply(200))
    body = {"name": "traced", "retry": {"base_delay_ms": 100, "jitter": "NONE"}, **receiver.target("/traced")}
    answer = client.post("/v1/tasks", body, headers={"traceparent": f"00-{trace}-{span}-00", "X-Request-Id": "order-7"})
    assert answer.status == 201 and answer.headers["x-request-id"] == "order-7"
    parents = [c.headers["traceparent"] for c in receiver.wait("/traced", 2)]
    assert all(re.fullmatch(f"00-{trace}-[0-9a-f]{{16}}-00", p) for p in parents), parents
    assert len({span, *(p.split("-")[2] for p in parents)}) == 3, "each call is a span of its own"
    client.wait_for(answer.json["id"], "COMPLETED")
    assert {x["trace_id"] for x in client.get(f"/v1/tasks/{answer.json['id']}/executions").json["executions"]} == {trace}
    wrong = client.post("/v1/tasks", {"name": "own", **receiver.target("/own")}, headers={"traceparent": f"00-{trace}-{span}", "X-Request-Id": "a b"})
    assert wrong.status == 201 and "x-request-id" not in wrong.headers, "what is not valid is left out, not refused"
    assert trace not in receiver.wait("/own")[0].headers["traceparent"]


@pytest.mark.cluster(when="always")
def test_nothing_fires_early_or_twice_in_a_crowd(client, receiver, counts):
    chance = random.Random(7)
    due = [int(now_ms()) + 500 + chance.randrange(1500) for _ in range(300)]
    answer = client.post("/v1/tasks/batch", [{"name": f"c{i}", "run_at": at(d), **receiver.target(f"/c/{i}")} for i, d in enumerate(due)])
    assert answer.status == 201 and answer.json["created"] == 300
    for i in range(300):
        receiver.wait(f"/c/{i}")
    marker(client, receiver)
    late = sorted(receiver.to(f"/c/{i}")[0].received_ms - d for i, d in enumerate(due))
    counts(f"300 tasks over 1.5 s: late p50 {late[150]:.1f} p99 {late[297]:.1f} max {late[-1]:.1f} ms")
    assert late[0] >= 0
    assert all(len(receiver.to(f"/c/{i}")) == 1 for i in range(300))


def test_a_time_in_the_past_and_no_time_at_all_mean_now(client, receiver):
    client.create(name="past", run_at="2020-01-01T00:00:00Z", **receiver.target("/past"))
    client.create(payload={"webhook_url": receiver.url("/short"), "method": "POST", "body": {"a": 1}})
    assert receiver.wait("/past")[0].scheduled_ms == to_ms("2020-01-01T00:00:00Z")
    assert receiver.wait("/short")[0].body == b'{"a": 1}'


def test_an_interval_may_be_a_part_of_a_second(client, receiver):
    task = client.create(interval_seconds=0.25, max_runs=4, overlap_policy="ALLOW", **receiver.target("/quick"))
    assert task["interval_seconds"] == 0.25
    calls = sorted(receiver.wait("/quick", 4), key=lambda call: call.scheduled_ms)
    assert [c.scheduled_ms - calls[0].scheduled_ms for c in calls] == [0, 250, 500, 750]
    assert all(c.received_ms >= c.scheduled_ms for c in calls)


def test_a_new_earlier_task_does_not_wait_behind_a_later_one(client, receiver):
    client.create(name="far", delay="1h", **receiver.target("/far"))
    task = client.create(name="near", delay="200ms", **receiver.target("/near"))
    call = receiver.wait("/near")[0]
    assert 0 <= call.received_ms - to_ms(task["run_at"]) < 20_000
    assert receiver.to("/far") == []


def test_a_noop_runs_and_leaves_an_execution(client):
    task = client.create(name="noop", target_type="NOOP")
    client.wait_for(task["id"], "COMPLETED")
    assert [x["status"] for x in client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]] == ["COMPLETED"]


# ----------------------------------------------------------------------------------------------------------------------
# retries


def test_a_failed_call_is_tried_again_under_the_same_id_with_a_higher_fence(client, receiver):
    receiver.answer("/r", Reply(500, body=b"broken"), Reply(503, {"Retry-After": "1"}), Reply(204, body=b""))
    task = client.create(name="r", retry={"max_attempts": 4, "backoff": "FIXED", "base_delay_ms": 300, "jitter": "NONE"},
                         **receiver.target("/r"))
    calls = receiver.wait("/r", 3)
    done = client.wait_for(task["id"], "COMPLETED")
    assert [c.attempt for c in calls] == [1, 2, 3] and len({c.id for c in calls}) == 1
    assert [c.fence for c in calls] == sorted({c.fence for c in calls})
    assert calls[1].received_ms - calls[0].received_ms > 299  # what is counted from is a time in whole milliseconds
    assert calls[2].received_ms - calls[1].received_ms > 999, "Retry-After"
    assert done["attempts"] == 3
    executions = client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]
    assert [(x["attempt_number"], x["status"], x["http_status"]) for x in executions] == [
        (3, "COMPLETED", 204), (2, "FAILED", 503), (1, "FAILED", 500)]
    assert executions[2]["output"] == "broken" and "500" in executions[2]["error_message"]


@pytest.mark.cluster(when="long")
def test_retry_after_may_be_a_date(client, receiver):
    due_s = int(time.time()) + 3
    receiver.answer("/d", Reply(429, {"Retry-After": email.utils.formatdate(due_s, usegmt=True)}), Reply(200))
    client.create(name="d", retry={"base_delay_ms": 10}, **receiver.target("/d"))
    assert receiver.wait("/d", 2)[1].received_ms >= due_s * 1000


def test_exponential_backoff_stays_within_its_bounds(client, receiver):
    receiver.answer("/b", Reply(500))
    task = client.create(name="b", retry={"max_attempts": 5, "base_delay_ms": 100, "max_delay_ms": 300, "jitter": "NONE"},
                         **receiver.target("/b"))
    client.wait_for(task["id"], "FAILED")
    calls = receiver.to("/b")
    assert len(calls) == 5
    for delay, before, call in zip((100, 200, 300, 300), calls, calls[1:]):
        assert call.received_ms - before.received_ms > delay - 1


@pytest.mark.cluster(when="always")
def test_an_exhausted_task_is_failed_and_a_dead_letter_until_it_is_retried(client, receiver):
    receiver.answer("/x", Reply(500), Reply(500), Reply(200))
    task = client.create(name="x", max_retries=1, retry={"base_delay_ms": 10}, **receiver.target("/x"))
    failed = client.wait_for(task["id"], "FAILED")
    assert failed["attempts"] == 2 and "500" in failed["last_error"]
    assert [t["id"] for t in client.get("/v1/dlq").json["tasks"]] == [task["id"]]
    assert [t["id"] for t in client.get("/v1/tasks?status=DEAD_LETTERED").json["tasks"]] == [task["id"]]
    client.act(task["id"], "retry")
    done = client.wait_for(task["id"], "COMPLETED")
    assert client.get("/v1/dlq").json["tasks"] == [] and done["version"] > failed["version"]
    calls = receiver.to("/x")
    assert len(calls) == 3 and [c.fence for c in calls] == sorted({c.fence for c in calls})


@pytest.mark.cluster(when="long")
@pytest.mark.parametrize("status", [301, 302, 400, 404, 410])
def test_an_answer_that_will_not_change_is_final(client, receiver, status):
    receiver.answer("/f", Reply(status, {"Location": receiver.url("/elsewhere")}))
    task = client.create(name="f", retry={"max_attempts": 5, "base_delay_ms": 10}, **receiver.target("/f"))
    assert client.wait_for(task["id"], "FAILED")["attempts"] == 1
    assert len(receiver.to("/f")) == 1 and receiver.to("/elsewhere") == []


def test_a_dropped_connection_and_a_timeout_are_tried_again(client, receiver):
    receiver.answer("/drop", Reply(drop=True), Reply(200))
    hold = threading.Event()
    receiver.answer("/slow", Reply(hold=hold), Reply(200))
    tasks = [client.create(name=n, timeout_ms=500, retry={"base_delay_ms": 10}, **receiver.target(f"/{n}")) for n in ("drop", "slow")]
    for task in tasks:
        assert client.wait_for(task["id"], "COMPLETED")["attempts"] == 2
    hold.set()


def test_at_most_once_is_not_tried_again_after_the_first_byte(client, receiver):
    receiver.answer("/drop", Reply(drop=True))
    receiver.answer("/500", Reply(500))
    for path in ("/drop", "/500"):
        task = client.create(name="amo", delivery="AT_MOST_ONCE", retry={"max_attempts": 5, "base_delay_ms": 10}, **receiver.target(path))
        assert client.wait_for(task["id"], "FAILED")["attempts"] == 1
        assert len(receiver.to(path)) == 1


def test_at_most_once_is_tried_again_when_nobody_was_reached(client):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        task = client.create(name="amo", delivery="AT_MOST_ONCE", retry={"max_attempts": 3, "base_delay_ms": 10},
                             target_type="HTTP_CALLBACK", target_config={"url": url})
        assert client.wait_for(task["id"], "FAILED")["attempts"] == 3


@pytest.mark.own_server
def test_at_most_once_lost_in_a_kill_is_failed_and_not_run_again(server, receiver):
    hold = threading.Event()
    receiver.answer("/amo", Reply(hold=hold))
    client = server.client()
    task = client.create(name="amo", delivery="AT_MOST_ONCE", **receiver.target("/amo"))
    again = client.create(name="alo", **receiver.target("/alo"))
    receiver.wait("/amo")
    client.wait_for(again["id"], "COMPLETED")
    server.kill()
    hold.set()
    server.start()
    client = server.client()
    failed = client.wait_for(task["id"], "FAILED")
    assert "unknown" in failed["last_error"]
    marker(client, receiver)
    assert len(receiver.to("/amo")) == 1
    assert [x["status"] for x in failed["executions"]] == ["LOST"]


@pytest.mark.own_server
def test_a_call_lost_in_a_kill_runs_again_and_the_loss_is_recorded(server, receiver):
    hold = threading.Event()
    receiver.answer("/lost", Reply(hold=hold), Reply(200))
    client = server.client()
    task = client.create(name="lost", **receiver.target("/lost"))
    receiver.wait("/lost")
    server.kill()
    server.start()
    first, second = receiver.wait("/lost", 2)
    hold.set()
    assert first.id == second.id and second.fence > first.fence and (first.attempt, second.attempt) == (1, 1)
    done = server.client().wait_for(task["id"], "COMPLETED")
    assert [x["status"] for x in done["executions"]] == ["COMPLETED", "LOST"] and done["attempts"] == 1


# ----------------------------------------------------------------------------------------------------------------------
# changes close to the due time


@pytest.mark.parametrize("action", ["cancel", "pause", "delete", "force-complete"])
def test_nothing_fires_after_an_acknowledged_stop_inside_the_arm_window(client, receiver, action):
    """Tasks due in 50 to 900 ms, most of them claimed already when they are stopped."""
    delays = [50, 80, 120, 200, 300, 450, 700, 900] * 2
    random.Random(3).shuffle(delays)
    stopped, refused = {}, 0
    for i, delay in enumerate(delays):
        task = client.create(name=f"s{i}", run_at=at(now_ms() + delay), **receiver.target(f"/s/{i}"))
        until_ms = to_ms(task["run_at"]) - random.Random(i).choice((5, 30, 90))
        while now_ms() < until_ms:
            time.sleep(0.002)
        method, path = ("DELETE", "") if action == "delete" else ("POST", f"/{action}")
        answer = client.request(method, f"/v1/tasks/{task['id']}{path}")
        if answer.status in (200, 204):
            stopped[i] = (task["id"], now_ms())
        else:
            assert answer.status == 409, answer  # it was too late
            refused += 1
    marker(client, receiver, "1s")
    for i, (task_id, acknowledged_ms) in stopped.items():
        calls = receiver.to(f"/s/{i}")
        if action == "delete":
            assert client.get(f"/v1/tasks/{task_id}").status == 404
            assert all(c.received_ms < acknowledged_ms + 1000 for c in calls)
            continue
        task = client.task(task_id)
        assert task["status"] == {"cancel": "CANCELLED", "pause": "PAUSED", "force-complete": "COMPLETED"}[action]
        if action == "cancel" and task["attempts"]:  # it ran and was broken off
            continue
        if action == "force-complete" and task["attempts"]:  # it was over already
            assert all(c.received_ms < acknowledged_ms for c in calls)
            continue
        assert calls == [], f"due in {delays[i]} ms, stopped, and fired"
    assert len(stopped) >= 4, f"{refused} refused"


def test_an_edit_inside_the_arm_window_moves_the_time_and_the_target(client, receiver):
    moved = []
    for i in range(10):
        task = client.create(name=f"e{i}", delay="60ms" if i % 2 else "400ms", **receiver.target(f"/old/{i}"))
        later = at(now_ms() + 1200)
        answer = client.request("PATCH", f"/v1/tasks/{task['id']}", {"run_at": later, "target_config": {"url": receiver.url(f"/new/{i}")}})
        assert answer.status in (200, 409), answer
        if answer.status == 200:
            moved.append((i, to_ms(later), answer.json))
    assert len(moved) >= 3
    for i, due_ms, task in moved:
        assert task["version"] == 2
        assert receiver.wait(f"/new/{i}")[0].received_ms >= due_ms
        assert receiver.to(f"/old/{i}") == []


def test_pause_holds_a_task_and_resume_lets_it_go(client, receiver):
    task = client.create(name="p", delay="1s", **receiver.target("/p"))
    paused = client.act(task["id"], "pause")
    assert paused["status"] == "PAUSED" and paused["next_execution"] is None
    marker(client, receiver, "1200ms")
    assert receiver.to("/p") == []
    resumed_ms = now_ms()
    assert client.act(task["id"], "resume")["status"] == "SCHEDULED"
    assert receiver.wait("/p")[0].received_ms >= resumed_ms
    client.wait_for(task["id"], "COMPLETED")


def test_patching_the_status_is_pause_and_resume(client, receiver):
    task = client.create(name="p", delay="1h", **receiver.target("/p"))
    assert client.request("PATCH", f"/v1/tasks/{task['id']}", {"status": "PAUSED"}).json["status"] == "PAUSED"
    assert client.request("PATCH", f"/v1/tasks/{task['id']}", {"status": "SCHEDULED"}).json["status"] == "SCHEDULED"
    assert client.request("PATCH", f"/v1/tasks/{task['id']}", {"status": "COMPLETED"}).status == 400


def test_run_now_fires_a_far_task_once(client, receiver):
    task = client.create(name="far", delay="1h", **receiver.target("/far"))
    client.act(task["id"], "run-now")
    client.wait_for(task["id"], "COMPLETED")
    client.act(task["id"], "run-now", expect=409)
    assert len(receiver.to("/far")) == 1


def test_a_running_call_can_be_cancelled_but_not_paused(client, receiver, topology):
    hold = threading.Event()
    receiver.answer("/h", Reply(hold=hold))
    task = client.create(name="h", **receiver.target("/h"))
    receiver.wait("/h")
    shown = client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]
    assert [x["status"] for x in shown] == ["RUNNING"]
    if topology == "standalone":  # only the node that runs it knows
        assert shown[0]["started_at"] is not None and client.task(task["id"])["started_at"] == shown[0]["started_at"]
    client.act(task["id"], "pause", expect=409)
    client.act(task["id"], "force-complete", expect=409)
    assert client.request("PATCH", f"/v1/tasks/{task['id']}", {"name": "other"}).status == 409
    assert client.act(task["id"], "cancel")["status"] == "CANCELLED"
    assert client.task(task["id"])["status"] == "CANCELLED"
    hold.set()
    marker(client, receiver)
    assert len(receiver.to("/h")) == 1


def test_delete_takes_a_task_off_the_lists(client, receiver):
    task = client.create(name="d", delay="1h", **receiver.target("/d"))
    answer = client.request("DELETE", f"/v1/tasks/{task['id']}")
    assert (answer.status, answer.body) == (204, b"")
    assert client.get(f"/v1/tasks/{task['id']}").status == 404
    assert client.get("/v1/tasks").json["tasks"] == []
    assert client.request("DELETE", f"/v1/tasks/{task['id']}").status == 404


# ----------------------------------------------------------------------------------------------------------------------
# recurring tasks


@pytest.mark.parametrize("schedule", [{"interval_seconds": 1}, {"cron_expression": "* * * * * *", "time_zone": "Europe/Berlin"}],
                         ids=["interval", "cron"])
@pytest.mark.cluster(when="always")
def test_a_recurring_task_fires_each_second_once_and_never_early(client, receiver, schedule):
    task = client.create(name="tick", **schedule, **receiver.target("/tick"))
    assert task["type"] == "RECURRING"
    calls = receiver.wait("/tick", 4)
    assert all(c.received_ms >= c.scheduled_ms for c in calls)
    times = [c.scheduled_ms for c in calls]
    assert times == list(range(times[0], times[0] + 1000 * len(times), 1000))
    assert {c.task for c in calls} == {task["id"]} and len({c.id for c in calls}) == len(calls)
    occurrences = client.all(f"/v1/tasks/{task['id']}/occurrences")
    assert {c.id for c in calls} <= {o["id"] for o in occurrences}
    assert all(o["parent_id"] == task["id"] and o["type"] == "OCCURRENCE" for o in occurrences)
    until(lambda: len(client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]) >= 4, why="executions are missing")
    for x in client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]:
        assert x["task_id"] == task["id"] and x["occurrence_id"] in {o["id"] for o in occurrences}
    shown = client.task(task["id"])
    assert shown["status"] == "SCHEDULED" and shown["last_run_at"] and shown["runs_count"] >= 4
    assert task["id"] in {t["id"] for t in client.get("/v1/tasks").json["tasks"]}
    assert not any(t["type"] == "OCCURRENCE" for t in client.all("/v1/tasks")), "occurrences stand under their parent"


def test_max_runs_ends_it_after_exactly_so_many(client, receiver):
    task = client.create(name="three", interval_seconds=1, max_runs=3, **receiver.target("/three"))
    receiver.wait("/three", 3)
    done = client.wait_for(task["id"], "COMPLETED")
    assert done["runs_count"] == 3 and len(receiver.to("/three")) == 3


def test_end_date_ends_it(client, receiver):
    end_ms = now_ms() + 2500
    task = client.create(name="end", interval_seconds=1, end_date=at(end_ms), **receiver.target("/end"))
    client.wait_for(task["id"], "COMPLETED")
    calls = receiver.to("/end")
    assert 1 <= len(calls) <= 3 and all(c.scheduled_ms <= end_ms for c in calls)


def test_pause_and_edit_of_a_schedule_withdraw_what_was_spawned(client, receiver):
    task = client.create(name="w", interval_seconds=1, **receiver.target("/w"))
    path = f"/v1/tasks/{task['id']}"
    receiver.wait("/w", 1)
    client.act(task["id"], "pause")
    paused_ms = now_ms()
    assert not [o for o in client.all(f"{path}/occurrences?status=SCHEDULED")]
    marker(client, receiver, "2500ms")
    assert all(c.scheduled_ms <= paused_ms for c in receiver.to("/w"))
    client.act(task["id"], "resume")
    count = len(receiver.to("/w"))
    receiver.wait("/w", count + 1)

    edited = client.request("PATCH", path, {"cron_expression": "0 0 1 1 *"})
    assert edited.status == 200, edited
    edited_ms = now_ms()
    assert not client.all(f"{path}/occurrences?status=SCHEDULED")
    assert edited.json["cron_expression"] == "0 0 1 1 *" and "interval_seconds" not in edited.json
    assert to_ms(edited.json["next_execution"]) > now_ms()
    marker(client, receiver, "2500ms")
    assert all(c.scheduled_ms <= edited_ms for c in receiver.to("/w"))


def test_an_edit_of_the_target_reaches_the_occurrences_to_come(client, receiver):
    task = client.create(name="t", interval_seconds=1, **receiver.target("/before"))
    receiver.wait("/before", 1)
    answer = client.request("PATCH", f"/v1/tasks/{task['id']}", receiver.target("/behind"))
    edited_ms = now_ms()
    assert answer.status == 200, answer
    receiver.wait("/behind", 2)
    assert all(c.scheduled_ms <= edited_ms for c in receiver.to("/before"))
    times = sorted(c.scheduled_ms for c in receiver.calls)
    assert times == list(range(times[0], times[-1] + 1, 1000)), "lost or repeated"


def wait_until_just_before(receiver, path, before_ms):
    """Waits for a fire of a task that fires each second, then until shortly before its next one; returns when that is due."""
    due_ms = receiver.wait(path)[-1].scheduled_ms + 1000
    while now_ms() < due_ms - before_ms:
        time.sleep(0.001)
    return due_ms


@pytest.mark.parametrize("before_ms", [90, 40, 15])
@pytest.mark.parametrize("action", ["pause", "cancel", "delete", "edit"])
def test_no_occurrence_fires_after_an_acknowledged_change_of_its_task(client, receiver, action, before_ms):
    """The next occurrence is claimed already when the change comes."""
    task = client.create(name="a", interval_seconds=1, **receiver.target("/a"))
    path = f"/v1/tasks/{task['id']}"
    wait_until_just_before(receiver, "/a", before_ms)
    answer = {"delete": lambda: client.request("DELETE", path),
              "edit": lambda: client.request("PATCH", path, {"cron_expression": "0 0 1 1 *"})}.get(action, lambda: client.post(f"{path}/{action}"))()
    acknowledged_ms = now_ms()
    assert answer.status in (200, 204), answer
    marker(client, receiver, "2s")
    assert [c.scheduled_ms for c in receiver.to("/a") if c.scheduled_ms > acknowledged_ms] == []


def test_an_edit_of_the_target_reaches_an_occurrence_that_is_claimed_already(client, receiver):
    task = client.create(name="a", interval_seconds=1, **receiver.target("/old"))
    due_ms = wait_until_just_before(receiver, "/old", 40)
    answer = client.request("PATCH", f"/v1/tasks/{task['id']}", receiver.target("/new"))
    acknowledged_ms = now_ms()
    assert answer.status == 200, answer
    receiver.wait("/new", 2)
    assert all(c.scheduled_ms <= acknowledged_ms for c in receiver.to("/old"))
    times = sorted(c.scheduled_ms for c in receiver.calls)
    assert due_ms in times and times == list(range(times[0], times[-1] + 1, 1000)), "lost or repeated"


def test_trigger_now_fires_one_occurrence_more(client, receiver):
    task = client.create(name="yearly", cron_expression="0 0 1 1 *", **receiver.target("/y"))
    triggered = client.post(f"/v1/recurring-tasks/{task['id']}/trigger-now")
    assert triggered.status == 200, triggered
    call = receiver.wait("/y")[0]
    assert call.id == triggered.json["occurrence_id"] and call.task == task["id"]
    client.wait_for(call.id, "COMPLETED")
    assert client.task(task["id"])["status"] == "SCHEDULED"


def test_a_failed_occurrence_is_a_dead_letter_and_can_be_retried(client, receiver):
    receiver.answer("/o", Reply(500), Reply(200))
    task = client.create(name="o", cron_expression="0 0 1 1 *", retry={"max_attempts": 1}, **receiver.target("/o"))
    occurrence = client.act(task["id"], "run-now")["occurrence_id"]
    client.wait_for(occurrence, "FAILED")
    assert [t["id"] for t in client.get("/v1/dlq").json["tasks"]] == [occurrence]
    client.act(task["id"], "retry", expect=409)
    client.act(occurrence, "retry")
    client.wait_for(occurrence, "COMPLETED")


@pytest.mark.standalone("no test sets the clock of a database")
@pytest.mark.parametrize("mode,runs", [("RUN_ONE_NOW", 1), ("RUN_ALL_MISSED", 6), ("SKIP_MISSED", 0)])
def test_catch_up_after_an_hour_without_a_server(make_server, clock, receiver, mode, runs):
    """Every ten minutes, and the server is down over six of them."""
    server = make_server(env=clock.env)
    client = server.client()
    start_ms = clock.now_ms() // 1000 * 1000 + 3000  # a create that comes after it would make the first run the next one
    task = client.create(name="c", interval_seconds=600, start_time=at(start_ms), catch_up_mode=mode, **receiver.target("/c"))
    receiver.wait("/c", 1)  # at its start
    until(lambda: client.task(task["id"])["last_run_at"], why="it was not settled")
    server.stop()
    clock.jump(HOUR_MS + 300_000)
    server.start()
    client = server.client()
    receiver.wait("/c", 1 + runs)
    skipped = 6 - runs
    until(lambda: client.task(task["id"])["skipped_count"] == skipped, why=lambda: f"not {skipped} skipped: {client.task(task['id'])}")
    marker(client, receiver)
    calls = receiver.to("/c")[1:]
    assert sorted(c.scheduled_ms for c in calls) == [start_ms + 600_000 * k for k in range(7 - runs, 7)]
    listed = client.all(f"/v1/tasks/{task['id']}/occurrences?status=SKIPPED")
    assert len(listed) == (1 if skipped else 0)
    if skipped:
        assert mode in listed[0]["last_error"] and f"{skipped} occurrences" in listed[0]["last_error"]
        assert to_ms(listed[0]["scheduled_for"]) == start_ms + 600_000
    assert client.task(task["id"])["runs_count"] == 1 + runs
    server.stop()


@pytest.mark.standalone("no test sets the clock of a database")
def test_what_was_missed_longer_than_the_window_is_skipped_and_said(make_server, clock, receiver):
    server = make_server(env=clock.env)
    client = server.client()
    start_ms = clock.now_ms() // 1000 * 1000 + 3000  # a create that comes after it would wait for the next
    task = client.create(name="c", interval_seconds=600, start_time=at(start_ms), catch_up_mode="RUN_ALL_MISSED",
                         catch_up_window_seconds=1500, **receiver.target("/c"))
    receiver.wait("/c", 1)
    server.stop()
    clock.jump(HOUR_MS + 300_000)
    server.start()
    client = server.client()
    receiver.wait("/c", 3)  # those of 5 and 15 minutes ago, and perhaps one exactly at the edge
    marker(client, receiver)
    calls = receiver.to("/c")[1:]
    assert [c.scheduled_ms for c in calls] in ([start_ms + 600_000 * k for k in ks] for ks in ((5, 6), (4, 5, 6)))
    [skipped] = client.all(f"/v1/tasks/{task['id']}/occurrences?status=SKIPPED")
    assert "catch_up_window_seconds" in skipped["last_error"]
    assert client.task(task["id"])["skipped_count"] == 6 - len(calls)


@pytest.mark.own_server
def test_a_recurring_task_survives_restarts_without_a_gap(server, receiver):
    client = server.client()
    task = client.create(name="beat", interval_seconds=1, catch_up_mode="RUN_ALL_MISSED", overlap_policy="ALLOW",  # with what a queue still has
                         **receiver.target("/beat"))
    receiver.wait("/beat", 1)
    for _ in range(3):
        server.stop()
        server.start()
    receiver.wait("/beat", 3)
    client = server.client()
    client.act(task["id"], "pause")
    times = sorted(c.scheduled_ms for c in receiver.to("/beat"))  # of several workers one may be quicker than the other
    assert times == list(range(times[0], times[0] + 1000 * len(times), 1000))


def test_tasks_whose_time_zone_is_gone_do_not_hold_up_the_others(make_server, receiver, tmp_path):
    """More of them than the scheduler looks at in one go, and all of them before the one that can fire."""
    zones = tmp_path / "zones"
    (zones / "Old").mkdir(parents=True)
    for name in ("UTC", "Old/Town"):
        (zones / name).write_bytes(pathlib.Path("/usr/share/zoneinfo/UTC").read_bytes())
    server = make_server(env={"TZDIR": str(zones)})
    client = server.client()
    old = {"name": "old", "interval_seconds": 1, "time_zone": "Old/Town", "target_type": "NOOP"}
    answer = client.post("/v1/tasks/batch", [{**old, **receiver.target("/old")} if i == 0 else old for i in range(150)])
    assert answer.json["created"] == 150, answer
    receiver.wait("/old")
    server.stop()
    (zones / "Old/Town").unlink()
    server.start()
    until(lambda: server.log().count("spawn_impossible") >= 150, why="the zone is not missed")
    client = server.client()
    client.create(name="good", interval_seconds=1, **receiver.target("/good"))
    receiver.wait("/good", 2)
    seen = len(receiver.to("/old"))
    (zones / "Old/Town").write_bytes((zones / "UTC").read_bytes())
    receiver.wait("/old", seen + 1)  # and they go on by themselves when it is back
    server.stop()


# ----------------------------------------------------------------------------------------------------------------------
# keys, over restarts and at once


@pytest.mark.cluster(when="always")
@pytest.mark.own_server
def test_one_idempotency_key_makes_one_task_however_often_and_whenever_it_comes(server, receiver):
    body = {"name": "k", "delay": "300ms", **receiver.target("/k")}

    def ask(_):
        client = server.client()
        answer = client.post("/v1/tasks", body, key="the-key")
        client.close()
        return answer

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(48)))
    assert {a.status for a in answers} <= {201, 409}
    created = [a for a in answers if a.status == 201]
    assert len({a.json["id"] for a in created}) == 1 and len({a.body for a in created}) == 1
    server.client().wait_for(created[0].json["id"], "COMPLETED")
    server.kill()
    server.start()
    client = server.client()
    again = client.post("/v1/tasks", body, key="the-key")
    assert again.body == created[0].body and again.headers["location"] == created[0].headers["location"]
    assert client.post("/v1/tasks", {**body, "name": "other"}, key="the-key").status == 422
    client.wait_for(again.json["id"], "COMPLETED")
    assert len(client.get("/v1/tasks").json["tasks"]) == 1 and len(receiver.to("/k")) == 1
