"""Tasks that meet: overlapping runs, concurrency keys, dedupe keys and expiry, on the real server with the receiver as oracle."""

import json
import concurrent.futures
import threading

import pytest

from oracle import assert_none_dropped, most_at_once
from server import Reply, at, now_ms, to_ms, until

pytestmark = [pytest.mark.tenant, pytest.mark.cluster]

HOUR_MS = 3600 * 1000
SOON_MS = 2000  # generous: what is promised is milliseconds, and the figure is printed


def occurrences(client, task_id, *states):
    """Oldest first."""
    found = client.all(f"/v1/tasks/{task_id}/occurrences")
    return [o for o in reversed(found) if not states or o["status"] in states]


def wait_occurrences(client, task_id, state, count):
    return until(lambda: len(found := occurrences(client, task_id, state)) >= count and found,
                 why=lambda: f"no {count} {state} among {[(o['status'], o['last_error']) for o in occurrences(client, task_id)]}")


def metric(client, name):
    """Of all processes together."""
    found = [float(line.split()[1]) for node in client.server.nodes for line in client.get("/metrics", node=node).body.decode().splitlines()
             if line.startswith(f"{name} ")]
    assert len(found) == len(client.server.nodes), f"no metric {name}"
    return sum(found)


@pytest.fixture
def held(receiver):
    """held(path): the first call to it hangs until the event is set; all later ones are answered at once."""

    def hold(path):
        event = threading.Event()
        receiver.answer(path, Reply(hold=event), Reply())
        return event

    return hold


# ----------------------------------------------------------------------------------------------------------------------
# a recurring task and its own previous run


def beat(client, receiver, path, **more):
    return client.create(name=path, interval_seconds=1, **receiver.target(path), **more)


def test_by_default_a_run_is_skipped_while_the_one_before_is_not_over(client, receiver, held):
    release = held("/s")
    task = beat(client, receiver, "/s")
    first = receiver.wait("/s")[0]
    skipped = wait_occurrences(client, task["id"], "SKIPPED", 2)
    assert len(receiver.to("/s")) == 1
    assert all(o["last_error"] == f"skipped: the run of {at(first.scheduled_ms)} is not over" for o in skipped)
    assert client.task(task["id"])["skipped_count"] >= 2
    release.set()
    second = receiver.wait("/s", 2)[1]
    assert second.scheduled_ms > to_ms(skipped[1]["scheduled_for"])
    assert to_ms(skipped[0]["completed_at"]) >= to_ms(skipped[0]["scheduled_for"]), "skipped before it was due"


def test_max_runs_counts_what_ran_and_each_run_that_is_skipped_is_made_up_for_by_the_next(client, receiver):
    receiver.answer("/m", Reply(takes_s=1.4))
    task = beat(client, receiver, "/m", max_runs=3)
    done = client.wait_for(task["id"], "COMPLETED")
    assert_none_dropped(done, occurrences(client, task["id"]), 3)
    assert len(receiver.to("/m")) == 3 and most_at_once(receiver.to("/m")) == 1


def test_queue_one_lets_one_wait_and_skips_the_others(client, receiver, held):
    release = held("/q1")
    task = beat(client, receiver, "/q1", overlap_policy="QUEUE_ONE")
    receiver.wait("/q1")
    [waiting] = wait_occurrences(client, task["id"], "BLOCKED", 1)
    assert waiting["waiting_for"] == {"kind": "overlap", "key": task["id"]}
    skipped = wait_occurrences(client, task["id"], "SKIPPED", 1)
    assert to_ms(skipped[0]["scheduled_for"]) > to_ms(waiting["scheduled_for"])
    assert len(occurrences(client, task["id"], "BLOCKED")) == 1
    released_ms = now_ms()
    release.set()
    second = receiver.wait("/q1", 2)[1]
    assert second.id == waiting["id"] and second.received_ms - released_ms < SOON_MS
    assert most_at_once(receiver.to("/q1")) == 1


def test_queue_all_runs_them_one_after_the_other_in_their_order(client, receiver, held):
    release = held("/qa")
    task = beat(client, receiver, "/qa", overlap_policy="QUEUE_ALL", max_runs=4)
    receiver.wait("/qa")
    wait_occurrences(client, task["id"], "BLOCKED", 3)
    assert len(receiver.to("/qa")) == 1
    release.set()
    calls = receiver.wait("/qa", 4)
    client.wait_for(task["id"], "COMPLETED")
    assert [c.scheduled_ms for c in calls] == sorted(c.scheduled_ms for c in calls)
    assert most_at_once(calls) == 1 and len(calls) == 4
    assert occurrences(client, task["id"], "SKIPPED") == []


@pytest.mark.cluster(when="always")
@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_a_cancelled_schedule_leaves_a_trace_of_the_runs_that_waited(client, receiver, held, how):
    release = held("/qc")
    task = beat(client, receiver, "/qc", overlap_policy="QUEUE_ALL")
    receiver.wait("/qc")
    waiting = wait_occurrences(client, task["id"], "BLOCKED", 2)[:2]
    if how == "cancel":
        client.act(task["id"], "cancel")
    else:
        assert client.request("DELETE", f"/v1/tasks/{task['id']}").status == 204
    for run in waiting:
        shown = client.task(run["id"])
        assert shown["status"] == "CANCELLED" and shown["completed_at"], shown
        assert shown["last_error"] == "its schedule was cancelled", shown
    release.set()
    if how == "cancel":
        first = until(lambda: occurrences(client, task["id"], "COMPLETED"))
        assert len(first) == 1 and client.task(task["id"])["runs_count"] == 1
        assert not occurrences(client, task["id"], "BLOCKED", "SCHEDULED")
    assert len(receiver.to("/qc")) == 1


@pytest.mark.cluster(when="always")
def test_cancel_previous_breaks_off_the_run_before(client, receiver, held, topology):
    release = held("/cp")
    task = beat(client, receiver, "/cp", overlap_policy="CANCEL_PREVIOUS")
    first = receiver.wait("/cp")[0]
    second = receiver.wait("/cp", 2)[1]
    gone = client.wait_for(first.id, "CANCELLED")
    # A fleet's queue carries the wish to end it, and no reason.
    assert gone["last_error"] == ("cancelled while it ran" if topology.startswith("fleet") else f"replaced by the run of {at(second.scheduled_ms)}")
    assert second.received_ms >= second.scheduled_ms
    assert to_ms(gone["completed_at"]) >= second.scheduled_ms, "given up before the next was due"
    client.wait_for(second.id, "COMPLETED")
    release.set()


@pytest.mark.cluster(when="always")
@pytest.mark.parametrize("policy", ["SKIP", "CANCEL_PREVIOUS"])
@pytest.mark.own_server
def test_a_run_that_is_held_back_before_its_time_costs_no_other(client, receiver, policy):
    """Runs are claimed seconds ahead of their time. One that was claimed and has not begun is no run that is not over."""

    def wait_ahead():
        until(lambda: metric(client, "belfry_tasks_ahead") >= 1)

    task = client.create(name="hb", interval_seconds=2, overlap_policy=policy, **receiver.target("/hb"))
    receiver.wait("/hb")
    wait_ahead()
    held_back = occurrences(client, task["id"], "SCHEDULED")[0]
    assert client.act(held_back["id"], "pause")["status"] == "PAUSED"
    receiver.wait("/hb", 3)
    wait_ahead()
    client.act(held_back["id"], "resume")
    client.wait_for(held_back["id"], "COMPLETED")
    receiver.wait("/hb", 5)
    assert occurrences(client, task["id"], "SKIPPED", "CANCELLED") == []


def test_allow_runs_them_beside_each_other(client, receiver, held):
    release = held("/a")
    task = beat(client, receiver, "/a", overlap_policy="ALLOW")
    assert len(receiver.wait("/a", 3)) >= 3
    release.set()
    assert client.task(task["id"])["skipped_count"] == 0


def test_what_is_run_by_hand_runs_beside(client, receiver, held):
    release = held("/hand")
    task = client.create(name="hand", interval_seconds=3600, start_time=at(now_ms() + 300), **receiver.target("/hand"))
    first = receiver.wait("/hand")[0]
    by_hand = client.act(task["id"], "run-now")["occurrence_id"]
    second = receiver.wait("/hand", 2)[1]
    assert second.id == by_hand != first.id
    release.set()


def runs_by_hand_that_wait(client, receiver, path):
    """A recurring task that was run three times by hand: one runs, two wait for its slot."""
    task = client.create(name=path, interval_seconds=3600, start_time=at(now_ms() + HOUR_MS), concurrency_key=path, **receiver.target(path))
    made = [client.act(task["id"], "run-now")["occurrence_id"] for _ in range(3)]
    [running] = receiver.wait(path)
    wait_occurrences(client, task["id"], "BLOCKED", 2)
    return task, running, [o for o in made if o != running.id]


@pytest.mark.parametrize("change", ["pause", "edit"])
def test_runs_by_hand_that_wait_outlive_a_change_of_their_task(client, receiver, held, change):
    release = held("/kept")
    task, running, waiting = runs_by_hand_that_wait(client, receiver, "/kept")
    if change == "pause":
        assert client.act(task["id"], "pause")["status"] == "PAUSED"
    else:
        assert client.request("PATCH", f"/v1/tasks/{task['id']}", {"interval_seconds": 7200}).status == 200
    assert {client.task(o)["status"] for o in waiting} == {"BLOCKED"}
    release.set()
    assert sorted(c.id for c in receiver.wait("/kept", 3)) == sorted([running.id, *waiting])
    for occurrence in waiting:
        client.wait_for(occurrence, "COMPLETED")


@pytest.mark.parametrize("change", ["cancel", "delete"])
def test_runs_by_hand_that_wait_are_cancelled_with_their_task(client, receiver, held, change):
    release = held("/ended")
    task, running, waiting = runs_by_hand_that_wait(client, receiver, "/ended")
    if change == "cancel":
        client.act(task["id"], "cancel")
    else:
        assert client.request("DELETE", f"/v1/tasks/{task['id']}").status == 204
    assert [(client.task(o)["status"], client.task(o)["last_error"]) for o in waiting] == [("CANCELLED", "its schedule was cancelled")] * 2
    release.set()
    client.wait_for(running.id, "COMPLETED")
    assert len(receiver.to("/ended")) == 1


def test_a_run_by_hand_in_a_paused_queue_outlives_a_pause_of_its_task(client, receiver):
    assert client.request("PUT", "/v1/queues/stopped", {"paused": True}).status in (200, 201)
    task = client.create(name="q", queue="stopped", interval_seconds=3600, start_time=at(now_ms() + HOUR_MS), **receiver.target("/stopped"))
    made = client.act(task["id"], "run-now")["occurrence_id"]
    client.act(task["id"], "pause")
    assert client.task(made)["status"] == "SCHEDULED"
    assert client.request("PATCH", "/v1/queues/stopped", {"paused": False}).status == 200
    assert receiver.wait("/stopped")[0].id == made


def test_retries_belong_to_the_run(client, receiver):
    receiver.answer("/rr", Reply(500), Reply())
    task = beat(client, receiver, "/rr", retry={"backoff": "FIXED", "base_delay_ms": 2500, "jitter": "NONE"})
    first = receiver.wait("/rr")[0]
    skipped = wait_occurrences(client, task["id"], "SKIPPED", 1)
    assert skipped[0]["last_error"] == f"skipped: the run of {at(first.scheduled_ms)} is not over"
    assert [c.id for c in receiver.wait("/rr", 2)] == [first.id, first.id]


def test_force_runs_a_queued_occurrence_beside_the_one_that_runs(client, receiver, held):
    release = held("/f")
    task = beat(client, receiver, "/f", overlap_policy="QUEUE_ALL", max_runs=2)
    receiver.wait("/f")
    [waiting] = wait_occurrences(client, task["id"], "BLOCKED", 1)
    client.act(waiting["id"], "run-now", expect=409)
    client.act(waiting["id"], "run-now", body={"force": True})
    assert receiver.wait("/f", 2)[1].id == waiting["id"]
    release.set()


# ----------------------------------------------------------------------------------------------------------------------
# concurrency keys


@pytest.mark.cluster(when="always")
@pytest.mark.parametrize("limit", [1, 3])
def test_a_concurrency_limit_is_reached_and_never_exceeded(client, receiver, counts, limit):
    receiver.answer("/k", Reply(takes_s=0.02))
    due = at(now_ms() + 300)
    bodies = [{"name": f"k{i}", "run_at": due, "concurrency_key": "customer 42", "concurrency_limit": limit, "queue": f"q{i % 3}",
               "priority": i % 10, **receiver.target("/k")} for i in range(60)]
    answer = client.post("/v1/tasks/batch", bodies)
    assert answer.json["created"] == 60
    for task in answer.json["tasks"]:
        client.wait_for(task["id"], "COMPLETED")
    calls = receiver.to("/k")
    assert len(calls) == 60
    assert most_at_once(calls) == limit
    took = max(c.answered_ms for c in calls) - min(c.received_ms for c in calls)
    counts(f"60 tasks of 20 ms, {limit} at a time: {took:.0f} ms")


def test_keys_and_tasks_without_one_do_not_wait_for_each_other(client, receiver, held):
    release = held("/one")
    client.create(name="one", concurrency_key="one", **receiver.target("/one"))
    receiver.wait("/one")
    waiting = client.create(name="w", concurrency_key="one", **receiver.target("/w"))
    client.wait_for(waiting["id"], "BLOCKED")
    client.create(name="two", concurrency_key="two", **receiver.target("/two"))
    client.create(name="none", **receiver.target("/none"))
    receiver.wait("/two")
    receiver.wait("/none")
    assert receiver.to("/w") == []
    until(lambda: now_ms() > to_ms(waiting["run_at"]) + 200)
    release.set()
    receiver.wait("/w")
    client.wait_for(waiting["id"], "COMPLETED")
    [attempt] = client.get(f"/v1/tasks/{waiting['id']}/executions").json["executions"]
    assert attempt["delay_cause"] == "KEY" and attempt["delay_ms"] >= 100, attempt


def test_a_recurring_task_and_others_share_a_key(client, receiver):
    receiver.answer("/r", Reply(takes_s=0.05))
    task = client.create(name="r", interval_seconds=1, max_runs=2, overlap_policy="QUEUE_ALL", concurrency_key="both", **receiver.target("/r"))
    others = [client.create(name=f"o{i}", delay=f"{i * 100}ms", concurrency_key="both", **receiver.target("/r")) for i in range(20)]
    for other in others:
        client.wait_for(other["id"], "COMPLETED")
    client.wait_for(task["id"], "COMPLETED")
    calls = receiver.wait("/r", 22)
    assert len(calls) == 22 and most_at_once(calls) == 1


def test_who_waits_starts_at_once_when_the_slot_is_free(client, receiver, counts):
    receiver.answer("/chain", Reply(takes_s=0.005))
    made = client.post("/v1/tasks/batch", [{"concurrency_key": "chain", **receiver.target("/chain")} for _ in range(60)]).json["tasks"]
    for task in made:
        client.wait_for(task["id"], "COMPLETED")
    calls = sorted(receiver.to("/chain"), key=lambda c: c.received_ms)
    gaps = sorted(b.received_ms - a.answered_ms for a, b in zip(calls, calls[1:]))
    counts(f"from the end of one to the start of the next that waited: p50 {gaps[30]:.1f} p90 {gaps[53]:.1f} max {gaps[-1]:.1f} ms")
    assert gaps[0] >= 0 and gaps[30] < SOON_MS
    assert most_at_once(calls) == 1


def test_who_was_due_first_goes_first(client, receiver, held):
    release = held("/first")
    client.create(name="first", concurrency_key="line", **receiver.target("/first"))
    receiver.wait("/first")
    names = ["/c", "/a", "/b"]
    begin_ms = now_ms() + 100
    made = [client.create(name=n, run_at=at(begin_ms + d), concurrency_key="line", **receiver.target(n)) for n, d in zip(names, (3, 1, 2))]
    for task in made:
        client.wait_for(task["id"], "BLOCKED")
    release.set()
    for name in names:
        receiver.wait(name)
    assert [c.path for c in receiver.calls] == ["/first", "/a", "/b", "/c"]


def test_a_task_that_waits_says_for_what_and_can_be_changed(client, receiver, held):
    release = held("/h")
    holder = client.create(name="h", concurrency_key="k:1", **receiver.target("/h"))
    receiver.wait("/h")
    made = {n: client.create(name=n, concurrency_key="k:1", **receiver.target(f"/{n}"))["id"] for n in ("free", "other", "gone", "paused", "last")}
    for task_id in made.values():
        shown = client.wait_for(task_id, "BLOCKED")
        assert shown["waiting_for"] == {"kind": "concurrency_key", "key": "k:1"}
    client.act(made["free"], "run-now", expect=409, body={"force": True})
    assert client.request("PATCH", f"/v1/tasks/{made['free']}", {"concurrency_key": None}).status == 200
    assert client.request("PATCH", f"/v1/tasks/{made['other']}", {"concurrency_key": "k:2"}).status == 200
    receiver.wait("/free")
    receiver.wait("/other")
    client.act(made["gone"], "cancel")
    paused = client.act(made["paused"], "pause")
    assert paused["status"] == "PAUSED" and "waiting_for" not in paused
    assert receiver.to("/last") == []
    client.act(holder["id"], "cancel")
    receiver.wait("/last")
    assert receiver.to("/gone") == [] and receiver.to("/paused") == []
    client.act(made["paused"], "resume")
    receiver.wait("/paused")
    release.set()


def test_between_the_attempts_of_a_retry_the_slot_is_free(client, receiver):
    receiver.answer("/t", Reply(500), Reply())
    task = client.create(name="t", concurrency_key="t", retry={"backoff": "FIXED", "base_delay_ms": 1500, "jitter": "NONE"}, **receiver.target("/t"))
    receiver.wait("/t")
    client.create(name="u", concurrency_key="t", **receiver.target("/u"))
    between = receiver.wait("/u")[0]
    again = receiver.wait("/t", 2)[1]
    assert between.received_ms < again.received_ms
    client.wait_for(task["id"], "COMPLETED")


# ----------------------------------------------------------------------------------------------------------------------
# dedupe keys


def keyed(receiver, path, key, **more):
    return {"name": path, "dedupe_key": key, **receiver.target(path), **more}


@pytest.mark.own_server
def test_the_second_task_with_a_key_is_the_first(client, receiver):
    first = client.create(**keyed(receiver, "/d", "order 1", delay="300ms"))
    assert first["dedupe_key"] == "order 1" and first["dedupe_window_seconds"] == 3600 and "deduplicated" not in first
    answer = client.post("/v1/tasks", keyed(receiver, "/other", "order 1", priority=9))
    assert answer.status == 200 and answer.json["id"] == first["id"] and answer.json["deduplicated"] is True
    assert answer.json["priority"] == 5 and answer.headers["etag"] == '"1"'
    receiver.wait("/d")
    client.wait_for(first["id"], "COMPLETED")
    again = client.post("/v1/tasks", keyed(receiver, "/other", "order 1"))
    assert (again.status, again.json["id"], again.json["status"]) == (200, first["id"], "COMPLETED")
    assert receiver.to("/other") == [] and len(receiver.to("/d")) == 1
    assert metric(client, "belfry_tasks_deduplicated_total") == 2 and metric(client, "belfry_tasks_scheduled_total") == 1


@pytest.mark.cluster(when="always")
def test_of_many_that_come_at_once_one_is_made(server, receiver):
    def create(i):
        client = server.client()
        answer = client.post("/v1/tasks", keyed(receiver, f"/{i}", f"race {i % 3}", dedupe_action="RESCHEDULE" if i % 2 else "RETURN", delay="1h"))
        client.close()
        assert answer.status in (200, 201), answer
        return i % 3, answer.status, answer.json["id"]

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        got = list(pool.map(create, range(60)))
    for key in range(3):
        mine = [(status, task_id) for k, status, task_id in got if k == key]
        assert sorted(s for s, _ in mine) == [200] * 19 + [201], mine
        assert len({task_id for _, task_id in mine}) == 1


def test_a_key_is_free_when_its_window_is_over(client, receiver):
    first = client.create(**keyed(receiver, "/w", "short", delay="1h", dedupe_window_seconds=1))

    def free():
        answer = client.post("/v1/tasks", keyed(receiver, "/w", "short", delay="1h"))
        return answer.status == 201 and answer.json

    second = until(free)
    assert second["id"] != first["id"]
    assert to_ms(second["created_at"]) - to_ms(first["created_at"]) >= 1000


@pytest.mark.text("no task runs")
def test_deleting_a_task_frees_its_key_and_cancelling_does_not(client, receiver):
    first = client.create(**keyed(receiver, "/x", "k", delay="1h"))
    client.act(first["id"], "cancel")
    assert client.post("/v1/tasks", keyed(receiver, "/x", "k", delay="1h")).status == 200
    assert client.request("DELETE", f"/v1/tasks/{first['id']}").status == 204
    second = client.create(**keyed(receiver, "/x", "k", delay="1h"))
    assert second["id"] != first["id"]
    assert client.post("/v1/tasks", keyed(receiver, "/x", "k")).json["id"] == second["id"]


def test_reschedule_moves_what_has_not_fired(client, receiver):
    first = client.create(**keyed(receiver, "/m", "index", delay="1h"))
    due_ms = int(now_ms()) + 500
    answer = client.post("/v1/tasks", keyed(receiver, "/n", "index", dedupe_action="RESCHEDULE", run_at=at(due_ms)))
    assert answer.status == 200 and answer.json["deduplicated"] is True and answer.json["version"] == 2
    assert (answer.json["id"], answer.json["run_at"]) == (first["id"], at(due_ms))
    call = receiver.wait("/m")[0]
    assert call.received_ms >= due_ms and call.scheduled_ms == due_ms and receiver.to("/n") == []
    client.wait_for(first["id"], "COMPLETED")
    new = client.create(**keyed(receiver, "/n", "index", dedupe_action="RESCHEDULE", delay="1h"))
    assert new["id"] != first["id"], "it had fired: the new one takes the key"
    later = client.post("/v1/tasks", keyed(receiver, "/n", "index", dedupe_action="RESCHEDULE", delay="2h"))
    assert later.json["id"] == new["id"] and to_ms(later.json["run_at"]) > to_ms(new["run_at"])


def test_replace_moves_it_and_sends_what_came_last(client, receiver):
    first = client.create(**keyed(receiver, "/first", "burst", delay="1h", dedupe_action="REPLACE", payload={"n": 1}))
    due_ms = int(now_ms()) + 500
    again = keyed(receiver, "/last", "burst", dedupe_action="REPLACE", run_at=at(due_ms), payload={"n": 2}, metadata={"by": "second"})
    answer = client.post("/v1/tasks", again)
    assert (answer.status, answer.json["id"], answer.json["version"]) == (200, first["id"], 2)
    assert answer.json["payload"] == {"n": 2} and answer.json["metadata"] == {"by": "second"}
    assert client.post("/v1/tasks", again).json["version"] == 2, "nothing has changed"
    call = receiver.wait("/last")[0]
    assert call.scheduled_ms == due_ms and json.loads(call.body) == {"n": 2} and receiver.to("/first") == []


@pytest.mark.text("no task runs")
def test_creates_move_a_task_no_further_than_it_may_wait(client, receiver):
    moving = dict(dedupe_action="RESCHEDULE", dedupe_max_wait_seconds=90)
    first = client.create(**keyed(receiver, "/w", "wait", delay="1m", **moving))
    latest_ms = to_ms(first["created_at"]) + 90_000
    for delay in ("80s", "2h", "3h"):
        moved = client.post("/v1/tasks", keyed(receiver, "/w", "wait", delay=delay, **moving)).json
        assert moved["id"] == first["id"] and to_ms(moved["run_at"]) <= latest_ms
    assert to_ms(moved["run_at"]) == latest_ms and moved["dedupe_max_wait_seconds"] == 90
    for body in (dict(dedupe_max_wait_seconds=5), dict(dedupe_key="k", dedupe_max_wait_seconds=5)):
        assert client.post("/v1/tasks", {"target_type": "NOOP", **body}).json["errors"][0]["field"] == "dedupe_max_wait_seconds"


@pytest.mark.text("no task runs")
def test_a_paused_task_is_moved_and_stays_paused(client, receiver):
    first = client.create(**keyed(receiver, "/p", "p", delay="1h"))
    client.act(first["id"], "pause")
    answer = client.post("/v1/tasks", keyed(receiver, "/p", "p", dedupe_action="RESCHEDULE", delay="2h"))
    assert (answer.status, answer.json["status"], answer.json["version"]) == (200, "PAUSED", 3)


def test_a_storm_of_moves_around_the_due_time_runs_each_task_once(client, receiver, counts):
    """Moves that meet a task claimed a moment before its time: it is moved, or it fires and a new one is made."""
    made, wished = {}, {}
    for i in range(300):
        answer = client.post("/v1/tasks", keyed(receiver, "/storm", "storm", dedupe_action="RESCHEDULE", delay=f"{5 + i % 60}ms"))
        assert answer.status in (200, 201), answer
        task = answer.json
        if answer.status == 201:
            assert task["id"] not in made
            made[task["id"]] = task
        assert task["id"] in made
        wished[task["id"]] = to_ms(task["run_at"])
    for task_id in made:
        client.wait_for(task_id, "COMPLETED")
    calls = receiver.to("/storm")
    counts(f"300 creates under one key with RESCHEDULE: {len(made)} made, {300 - len(made)} moved")
    assert sorted(c.id for c in calls) == sorted(made)
    assert all(c.scheduled_ms == wished[c.id] <= c.received_ms for c in calls)


@pytest.mark.parametrize("where", ["header", "body"])
def test_a_repeated_create_gets_the_first_answer_whatever_became_of_the_task(client, receiver, where):
    """The record has only the id and the due time; the rest of the answer is made again from the body."""
    body = {"name": "ä", "delay": "1h", "payload": {"n": 1.50}, "metadata": {"a": [1]}, "retry": {"max_attempts": 3},
            **receiver.target("/again", headers={"Authorization": "Bearer secret"})}
    key = {"key": f"again-{where}"} if where == "header" else {}
    if where == "body":
        body["idempotency_key"] = "again-in-body"
    first = client.post("/v1/tasks", body, **key)
    assert first.status == 201 and "idempotency-replayed" not in first.headers
    path = f"/v1/tasks/{first.json['id']}"

    def check():
        again = client.post("/v1/tasks", body, **key)
        assert (again.status, again.body, again.headers["idempotency-replayed"]) == (201, first.body, "true")
        assert (again.headers["location"], again.headers["etag"]) == (path, first.headers["etag"])

    check()
    assert client.request("PATCH", path, {"delay": "2h", "priority": 9}).status == 200
    check()
    assert client.post(f"{path}/cancel").status == 200
    check()
    assert client.request("DELETE", path).status == 204 and client.get(path).status == 404
    check()


@pytest.mark.text("no task runs")
def test_an_idempotency_key_keeps_the_answer_that_was_given(client, receiver):
    first = client.post("/v1/tasks", keyed(receiver, "/i", "i", delay="1h"), key="a")
    again = client.post("/v1/tasks", keyed(receiver, "/i", "i", delay="1h"), key="a")
    assert (first.status, again.status, again.body) == (201, 201, first.body) and again.headers["idempotency-replayed"] == "true"
    for action, delay, version in (("RETURN", "1h", 1), ("RESCHEDULE", "2h", 2)):
        body = keyed(receiver, "/i", "i", delay=delay, dedupe_action=action)
        found = client.post("/v1/tasks", body, key=action)
        stored = client.post("/v1/tasks", body, key=action)
        assert (found.status, found.json["deduplicated"], found.json["version"]) == (200, True, version)
        assert (stored.status, stored.body) == (200, found.body) and stored.headers["idempotency-replayed"] == "true"
    assert client.task(first.json["id"])["version"] == 2, "moved once"
    assert client.post("/v1/tasks", keyed(receiver, "/i", "j"), key="a").status == 422


def test_each_element_of_a_batch_is_looked_at_by_itself(client, receiver):
    there = client.create(**keyed(receiver, "/there", "there", delay="1h"))
    fired = client.create(**keyed(receiver, "/fired", "fired"))
    client.wait_for(fired["id"], "COMPLETED")
    bodies = [
        keyed(receiver, "/b", "there", delay="2h"),
        {"name": "plain", "delay": "1h", **receiver.target("/b")},
        keyed(receiver, "/b", "there", delay="3h", dedupe_action="RESCHEDULE"),
        keyed(receiver, "/b", "new", delay="1h"),
        keyed(receiver, "/b", "new", delay="2h"),
        {"name": "bad", "dedupe_action": "RETURN", **receiver.target("/b")},
        keyed(receiver, "/b", "new", delay="4h", dedupe_action="RESCHEDULE"),
        keyed(receiver, "/b", "fired", delay="1h", dedupe_action="RESCHEDULE"),
        keyed(receiver, "/b", "fired", delay="1h"),
    ]
    answer = client.post("/v1/tasks/batch", bodies, key="batch")
    assert answer.status == 201, answer
    got = answer.json
    assert (got["created"], got["deduplicated"], got["failed"]) == (3, 5, 1)
    ids = [t.get("id") for t in got["tasks"]]
    assert ids[0] == ids[2] == there["id"] and ids[3] == ids[4] == ids[6] and ids[7] == ids[8] != fired["id"]
    assert [t.get("deduplicated", False) for t in got["tasks"]] == [True, False, True, False, True, False, True, False, True]
    assert got["tasks"][5]["error"]["errors"][0]["field"] == "dedupe_action"
    moved, new = client.task(there["id"]), client.task(ids[3])
    assert moved["version"] == 2 and moved["next_execution"] == got["tasks"][2]["next_execution"]
    assert new["version"] == 1 and new["next_execution"] == got["tasks"][3]["next_execution"]
    assert to_ms(new["run_at"]) - to_ms(new["created_at"]) > 3.9 * HOUR_MS, "the last one with its key decided"
    assert client.post("/v1/tasks/batch", bodies, key="batch").body == answer.body
    lines = "\n".join(["", '{"target_type": "NOOP", "delay": "1h", "dedupe_key": "new"}', ""])
    found = client.request("POST", "/v1/tasks/batch", raw=lines.encode(), headers={"Content-Type": "application/x-ndjson"}).json
    assert (found["created"], found["deduplicated"], found["tasks"][0]["id"]) == (0, 1, ids[3])


@pytest.mark.own_server
def test_a_key_outlives_the_process(server, client, receiver):
    first = client.create(**keyed(receiver, "/o", "o", delay="1h", dedupe_window_seconds=86400))
    server.kill()
    server.start()
    answer = client.post("/v1/tasks", keyed(receiver, "/o", "o"))
    assert answer.status == 200 and answer.json["id"] == first["id"]


def test_a_recurring_task_is_found_by_its_key_too(client, receiver):
    body = {"name": "r", "cron_expression": "@daily", "dedupe_key": "daily", **receiver.target("/r")}
    first = client.create(**body)
    for path in ("/v1/tasks", "/v1/recurring-tasks", "/v1/tasks/recurring"):
        answer = client.post(path, body)
        assert (answer.status, answer.json["id"]) == (200, first["id"])
    taken = client.post("/v1/tasks", keyed(receiver, "/r", "daily", dedupe_action="RESCHEDULE", delay="1h"))
    assert taken.status == 201, "a recurring task is not moved"
    assert client.task(first["id"])["status"] == "SCHEDULED"


# ----------------------------------------------------------------------------------------------------------------------
# expiry


def test_what_comes_too_late_is_expired_and_not_run(client, receiver):
    late = client.create(name="late", run_at=at(now_ms() - 60_000), expires_after_seconds=30, **receiver.target("/late"))
    in_time = client.create(name="in time", run_at=at(now_ms() - 60_000), expires_after_seconds=300, **receiver.target("/in-time"))
    gone = client.wait_for(late["id"], "EXPIRED")
    assert gone["last_error"] and gone["next_execution"] is None and gone["attempts"] == 0
    assert to_ms(gone["expires_at"]) == to_ms(gone["run_at"]) + 30_000
    client.wait_for(in_time["id"], "COMPLETED")
    assert receiver.to("/late") == []
    assert [t["id"] for t in client.get("/v1/tasks?status=EXPIRED").json["tasks"]] == [late["id"]]
    client.act(late["id"], "retry", expect=409)


def test_a_task_paused_for_too_long_expires_when_it_is_resumed_but_not_when_it_is_run(client, receiver):
    made = []
    for i in range(2):
        made.append(client.create(name=f"p{i}", delay="1500ms", expires_after_seconds=1, **receiver.target(f"/p{i}")))
        client.act(made[i]["id"], "pause")
    until(lambda: now_ms() > to_ms(made[1]["expires_at"]))
    client.act(made[0]["id"], "resume")
    client.act(made[1]["id"], "run-now")
    client.wait_for(made[0]["id"], "EXPIRED")
    client.wait_for(made[1]["id"], "COMPLETED")
    assert receiver.to("/p0") == []


@pytest.mark.cluster(when="always")
def test_a_task_expires_at_its_time_while_its_queue_is_paused(client, receiver):
    assert client.request("PUT", "/v1/queues/still", {}).status in (200, 201)
    assert client.request("PATCH", "/v1/queues/still", {"paused": True}).status == 200
    made = [client.create(name=f"s{i}", queue="still", expires_after_seconds=seconds, **receiver.target("/still"), **more)
            for i, (seconds, more) in enumerate([(1, {}), (600, {}), (1, {"delay": "300ms"})])]
    for task in (made[0], made[2]):
        gone = client.wait_for(task["id"], "EXPIRED")
        assert gone["last_error"].startswith("expired: it did not start within"), gone
        assert 0 <= to_ms(gone["completed_at"]) - to_ms(gone["expires_at"]) < SOON_MS, gone
    assert client.task(made[1]["id"])["status"] == "SCHEDULED" and receiver.to("/still") == []


def test_an_occurrence_expires_while_its_queue_is_paused(client, receiver):
    assert client.request("PUT", "/v1/queues/still", {}).status in (200, 201)
    assert client.request("PATCH", "/v1/queues/still", {"paused": True}).status == 200
    task = client.create(name="o", queue="still", interval_seconds=1, max_runs=2, overlap_policy="ALLOW", expires_after_seconds=1, **receiver.target("/o"))
    wait_occurrences(client, task["id"], "EXPIRED", 2)
    assert receiver.to("/o") == []


@pytest.mark.standalone("it ends the one process")
@pytest.mark.own_server
def test_a_worker_task_that_is_released_after_a_restart_still_expires(server, client, receiver, held):
    release = held("/first")
    first = client.create(name="first", **receiver.target("/first"))
    receiver.wait("/first")
    work = client.create(name="work", target_type="WORKER", queue="nobody", expires_after_seconds=1, depends_on=[first["id"]])
    keyed = client.create(name="keyed", target_type="WORKER", queue="nobody", concurrency_key="k", expires_after_seconds=1, depends_on=[first["id"]])
    assert work["status"] == "BLOCKED"
    server.kill()
    server.start()
    release.set()
    client.wait_for(first["id"], "COMPLETED")
    for task in (work, keyed):
        client.wait_for(task["id"], "EXPIRED")


def test_who_waits_for_a_slot_too_long_expires(client, receiver, held):
    release = held("/hold")
    client.create(name="hold", concurrency_key="e", **receiver.target("/hold"))
    receiver.wait("/hold")
    waiting = client.create(name="w", concurrency_key="e", expires_after_seconds=1, **receiver.target("/e"))
    patient = client.create(name="p", concurrency_key="e", **receiver.target("/patient"))
    client.wait_for(waiting["id"], "EXPIRED")  # at its time, while the slot is taken
    release.set()
    client.wait_for(patient["id"], "COMPLETED")
    assert receiver.to("/e") == []


def test_an_occurrence_that_comes_too_late_expires_and_counts_as_skipped(client, receiver, held):
    release = held("/o")
    task = client.create(name="o", interval_seconds=1, max_runs=3, overlap_policy="QUEUE_ALL", expires_after_seconds=1,
                         **receiver.target("/o"))
    first = receiver.wait("/o")[0]
    wait_occurrences(client, task["id"], "EXPIRED", 2)
    release.set()
    shown = client.task(task["id"])
    assert shown["skipped_count"] >= 2 and shown["expires_after_seconds"] == 1 and "expires_at" not in shown
    assert first.id not in [o["id"] for o in occurrences(client, task["id"], "EXPIRED")]


def test_a_retry_that_would_come_too_late_is_not_waited_for(client, receiver):
    receiver.answer("/late-retry", Reply(500))
    asked_ms = now_ms()
    task = client.create(name="r", expires_after_seconds=5, retry={"backoff": "FIXED", "base_delay_ms": HOUR_MS, "jitter": "NONE"},
                         **receiver.target("/late-retry"))
    gone = client.wait_for(task["id"], "EXPIRED")
    assert to_ms(gone["completed_at"]) - asked_ms < 5000, "known at once"
    assert gone["attempts"] == 1 and "500" in gone["last_error"]
    assert len(receiver.to("/late-retry")) == 1


def test_a_failed_task_that_is_retried_by_hand_has_its_time_again(client, receiver):
    receiver.answer("/again", Reply(500), Reply(200))
    task = client.create(name="a", expires_after_seconds=1, max_retries=0, **receiver.target("/again"))
    failed = client.wait_for(task["id"], "FAILED")
    until(lambda: now_ms() > to_ms(failed["expires_at"]))
    retried = client.act(task["id"], "retry")
    assert to_ms(retried["expires_at"]) > to_ms(failed["expires_at"])
    client.wait_for(task["id"], "COMPLETED")
    assert len(receiver.to("/again")) == 2


# ----------------------------------------------------------------------------------------------------------------------
# bodies


@pytest.mark.cluster(when="long")
@pytest.mark.parametrize("body, field", [
    ({"calendar": "de"}, "calendar"),
    ({"cron_expression": "@daily", "calendar": "nowhere"}, "calendar"),
    ({"cron_expression": "@daily", "calendar_policy": "SKIP"}, "calendar_policy"),
    ({"overlap_policy": "ALLOW"}, "overlap_policy"),
    ({"concurrency_limit": 2}, "concurrency_limit"),
    ({"concurrency_key": "k" * 201}, "concurrency_key"),
    ({"concurrency_key": "a\u0000b"}, "concurrency_key"),
    ({"concurrency_key": "a\nb"}, "concurrency_key"),
    ({"concurrency_key": "k", "concurrency_limit": 10001}, "concurrency_limit"),
    ({"concurrency_key": "k", "concurrency_limit": 1e300}, "concurrency_limit"),
    ({"dedupe_window_seconds": 1}, "dedupe_window_seconds"),
    ({"dedupe_key": "k", "dedupe_window_seconds": -1}, "dedupe_window_seconds"),
    ({"dedupe_key": ["k"]}, "dedupe_key"),
    ({"dedupe_key": "k", "dedupe_action": "return"}, "dedupe_action"),
    ({"cron_expression": "@daily", "dedupe_key": "k", "dedupe_action": "RESCHEDULE"}, "dedupe_action"),
    ({"expires_after_seconds": 0}, "expires_after_seconds"),
    ({"expires_after_seconds": 10**18}, "expires_after_seconds"),
    ({"waiting_for": {}}, "waiting_for"),
])
@pytest.mark.shared
def test_what_can_not_be_is_refused_by_its_field(client, body, field):
    answer = client.post("/v1/tasks", {"target_type": "NOOP", **body})
    assert answer.status == 400 and answer.json["errors"][0]["field"] == field, answer


@pytest.mark.text("no task runs")
def test_keys_of_every_character_are_kept_apart(client, receiver):
    keys = ["k", "K", "k ", "k:1", "k%", "k'; DROP TABLE tasks; --", "ü", "u\u0308", "\U0001f514" * 50, "k" * 200]
    made = [client.create(delay="1h", target_type="NOOP", dedupe_key=k, concurrency_key=k) for k in keys]
    assert len({t["id"] for t in made}) == len(keys)
    for key, task in zip(keys, made):
        answer = client.post("/v1/tasks", {"target_type": "NOOP", "dedupe_key": key})
        assert (answer.status, answer.json["id"], answer.json["dedupe_key"], answer.json["concurrency_key"]) == (200, task["id"], key, key)


@pytest.mark.text("no task runs")
def test_a_dedupe_key_can_not_be_changed(client, receiver):
    task = client.create(delay="1h", target_type="NOOP", dedupe_key="a")
    answer = client.request("PATCH", f"/v1/tasks/{task['id']}", {"dedupe_key": "b"})
    assert answer.status == 400 and "cannot be changed; create a new task" in answer.json["errors"][0]["message"]
