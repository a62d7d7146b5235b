"""Short outages: what had been spawned ahead and became due while nobody was running is caught up on as each task says.

The server spawns ten seconds ahead, so an outage shorter than that meets occurrences that exist already. The clock of the server is
the test's own (clock_shim): an outage lasts as long as it is said to, however slow the machine is."""

import signal
import threading

import pytest

from server import Reply, at, to_ms, until

EVERY_MS = 2000
OUTAGE_MS = 7000
DOUBT_MS = 2500
BURIAL_MS = 10000

MODES = ["RUN_ONE_NOW", "RUN_ALL_MISSED", "SKIP_MISSED"]


def beating(client, clock, receiver, mode, **more):
    """Fires every two seconds, also beside another run; returns it once it has fired and the next occurrences are there."""
    start_ms = clock.now_ms() // 1000 * 1000 + 1000
    task = client.create(name="beat", interval_seconds=EVERY_MS // 1000, start_time=at(start_ms), catch_up_mode=mode,
                         overlap_policy="ALLOW", **more, **receiver.target("/beat"))
    receiver.wait("/beat", 1)
    until(lambda: len(occurrences(client, task, "SCHEDULED")) >= 3, why="nothing was spawned ahead")
    until(lambda: client.task(task["id"])["last_run_at"], why="it was not settled")
    assert client.task(task["id"])["runs_count"] <= len(receiver.to("/beat")) + 1, "what is only spawned counts as a run"
    return task


def occurrences(client, task, status):
    return client.all(f"/v1/tasks/{task['id']}/occurrences?status={status}")


def pause(client, task):
    client.act(task["id"], "pause")
    until(lambda: not occurrences(client, task, "RUNNING,SCHEDULED"), why="it goes on")


def judge(client, receiver, task, mode, down_ms, up_ms, looked_ms):
    """The receiver's log against the mode. Between its last fire before down_ms and up_ms it missed all. By looked_ms it was looked for what
    was missed."""
    times = sorted(c.scheduled_ms for c in receiver.to("/beat"))
    assert len(times) == len(set(times)), "repeated"
    last = max(t for t in times if t <= down_ms)
    missed = list(range(last + EVERY_MS, int(up_ms), EVERY_MS))
    assert len(missed) >= 2, "nothing was missed: this test shows nothing"
    ran = [t for t in times if t in missed]
    if mode == "RUN_ONE_NOW":  # the latest for all by the time the server looked, and all since
        first = min(t for t in times if t > last)
        assert missed[-1] <= first <= max(missed[-1] + EVERY_MS, looked_ms), (times, missed, looked_ms)
        assert [t for t in times if t >= first] == list(range(first, times[-1] + 1, EVERY_MS)), (times, missed)
    else:
        assert ran == (missed if mode == "RUN_ALL_MISSED" else []), (times, missed)
    left_out = [t for t in range(times[0], times[-1] + 1, EVERY_MS) if t not in times]
    after, listed = client.task(task["id"]), occurrences(client, task, "SKIPPED")
    assert (after["skipped_count"], after["runs_count"]) == (len(left_out), len(times)), (after, times)
    assert bool(listed) == bool(left_out) and all(mode in o["last_error"] for o in listed), listed
    judge_delays(client, task, down_ms, up_ms)


def judge_delays(client, task, down_ms, up_ms):
    """The delay of what was due during the outage counts from its own time, and the outage is the cause."""
    for x in client.all(f"/v1/tasks/{task['id']}/executions", field="executions"):
        due_ms, started_ms = to_ms(x["scheduled_for"]), to_ms(x["started_at"])
        assert to_ms(x["completed_at"]) >= started_ms
        if x["status"] == "LOST":
            continue
        assert abs(x["delay_ms"] - (started_ms - due_ms)) <= 1, x
        assert (x["delay_cause"] is None) == (x["delay_ms"] < 100), x
        if down_ms + 1100 < due_ms < up_ms - 100:
            assert x["delay_cause"] == "DOWN", x


@pytest.mark.cluster
@pytest.mark.parametrize("mode", MODES)
def test_catch_up_after_a_kill_and_a_few_seconds_without_a_server(make_server, clock, receiver, mode, topology):
    outage(make_server, clock, receiver, mode, "kill", topology)


@pytest.mark.parametrize("mode", MODES)
def test_catch_up_after_a_stop_and_a_few_seconds_without_a_server(make_server, clock, receiver, mode, topology):
    outage(make_server, clock, receiver, mode, "stop", topology)


def outage(make_server, clock, receiver, mode, how, topology):
    """Nodes that were killed are not known to be dead at first, and the others look for what they missed after that. Until 2 s after its
    last beat a node may have fired: what it had claimed for then runs, whatever the mode."""
    alone = topology == "standalone"
    server = make_server(env=clock.env)
    task = beating(server.client(), clock, receiver, mode)
    down_ms = clock.now_ms()
    getattr(server, how)()
    clock.jump(OUTAGE_MS)
    up_ms = clock.now_ms()
    server.start()
    ready_ms = clock.now_ms()
    client = server.client()
    receiver.wait("/beat", len([c for c in receiver.to("/beat") if c.scheduled_ms <= down_ms]) + 2)
    pause(client, task)
    doubtful = [] if alone or how == "stop" else [c.scheduled_ms for c in receiver.to("/beat") if down_ms < c.scheduled_ms < down_ms + DOUBT_MS]
    judge(client, receiver, task, mode, max([down_ms, *doubtful]), up_ms, ready_ms + (1000 if alone else BURIAL_MS))
    server.stop()


@pytest.mark.standalone("nodes that are stopped all at once take each other for alive when they go on: what was spawned runs late")
@pytest.mark.parametrize("mode", MODES)
def test_catch_up_after_the_process_was_stopped_and_continued(make_server, clock, receiver, mode):
    server = make_server(env=clock.env)
    client = server.client()
    task = beating(client, clock, receiver, mode)
    server.signal(signal.SIGSTOP)
    down_ms = clock.now_ms()
    clock.jump(OUTAGE_MS)
    up_ms = clock.now_ms()
    server.signal(signal.SIGCONT)
    seen = len(receiver.to("/beat"))
    receiver.wait("/beat", seen + 2)
    pause(client, task)
    times = sorted(c.scheduled_ms for c in receiver.to("/beat"))
    armed = [t for t in times if down_ms < t < down_ms + 1100]  # it may have been claimed: then it is under way
    judge(client, receiver, task, mode, max([down_ms, *armed]), up_ms, up_ms + 1000)
    server.stop()


@pytest.mark.standalone("it counts on the only slot of the only node")
def test_one_asked_for_by_hand_runs_after_the_outage_whatever_the_mode(make_server, clock, receiver):
    """The one slot is taken when it is asked for, so it waits when the server dies."""
    server = make_server("--concurrency", "1", env=clock.env)
    client = server.client()
    receiver.answer("/slow", Reply(hold=threading.Event()), Reply(200))
    client.create(name="slow", **receiver.target("/slow"))
    receiver.wait("/slow")
    task = client.create(name="yearly", cron_expression="0 0 1 1 *", catch_up_mode="SKIP_MISSED", **receiver.target("/hand"))
    occurrence = client.act(task["id"], "run-now")["occurrence_id"]
    assert receiver.to("/hand") == []
    server.kill()
    clock.jump(OUTAGE_MS)
    server.start()
    assert receiver.wait("/hand")[0].id == occurrence
    server.stop()


def test_the_window_counts_in_a_short_outage_too(make_server, clock, receiver):
    server = make_server(env=clock.env)
    task = beating(server.client(), clock, receiver, "RUN_ONE_NOW", catch_up_window_seconds=2)
    server.kill()
    clock.jump(OUTAGE_MS)
    server.start()
    client = server.client()
    until(lambda: client.task(task["id"])["skipped_count"] > 0, why="nothing was skipped")
    pause(client, task)
    reasons = [o["last_error"] for o in occurrences(client, task, "SKIPPED")]
    assert any("catch_up_window_seconds" in r for r in reasons), reasons
    server.stop()
