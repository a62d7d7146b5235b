"""A wall clock that jumps, forward and backward: no fire is lost, repeated or early. The server runs with a clock that the test
sets (tests/support/clock_shim.c); what is early is judged by that clock."""

import pytest

from server import at, now_ms, to_ms, until

pytestmark = pytest.mark.standalone("no test sets the clock of a database; test_cluster_faults.py sets those of nodes")

HOUR_MS = 3600 * 1000


@pytest.fixture
def jumpy(make_server, clock):
    server = make_server(env=clock.env)
    assert abs(to_ms(server.client().get("/v1/scheduler/status").json["time"]) - clock.now_ms()) < 5000
    return server


def one_time(client, clock, receiver, name, in_ms):
    return client.create(name=name, run_at=at(clock.now_ms() + in_ms), **receiver.target(f"/{name}"))


def run_through(client, receiver, name):
    """A task created now runs now: whatever the server had to do about a jump is done."""
    task = client.create(name=name, **receiver.target(f"/{name}"))
    client.wait_for(task["id"], "COMPLETED")


def test_a_jump_forward_fires_what_became_due_once(jumpy, clock, receiver):
    client = jumpy.client()
    soon = one_time(client, clock, receiver, "soon", HOUR_MS // 2)
    later = one_time(client, clock, receiver, "later", 2 * HOUR_MS)
    run_through(client, receiver, "before")
    clock.jump(HOUR_MS)
    call = receiver.wait("/soon")[0]
    assert call.received_ms + clock.ahead_ms >= to_ms(soon["run_at"])
    client.wait_for(soon["id"], "COMPLETED")
    run_through(client, receiver, "after")
    assert len(receiver.to("/soon")) == 1 and receiver.to("/later") == []
    assert client.task(later["id"])["status"] == "SCHEDULED"
    clock.jump(HOUR_MS)
    receiver.wait("/later")
    jumpy.stop()


def test_a_jump_backward_rearms_what_was_claimed_and_fires_it_once(jumpy, clock, receiver):
    client = jumpy.client()
    tasks = [one_time(client, clock, receiver, f"t{i}", 700 + 10 * i) for i in range(30)]
    until(lambda: clock.now_ms() > to_ms(tasks[0]["run_at"]) - 50, why="time stood still")  # some are claimed by now
    clock.jump(-HOUR_MS)
    run_through(client, receiver, "after")
    fired = {c.path for c in list(receiver.calls)}
    run_through(client, receiver, "after2")
    assert {c.path for c in receiver.calls} - fired == {"/after2"}, "something fired an hour early"
    clock.jump(HOUR_MS)
    for i, task in enumerate(tasks):
        client.wait_for(task["id"], "COMPLETED")
        assert len(receiver.to(f"/t{i}")) == 1
    jumpy.stop()


def test_a_recurring_task_neither_loses_nor_repeats_an_occurrence_over_jumps(jumpy, clock, receiver, counts):
    client = jumpy.client()
    # ALLOW: this is about the clock, and SKIP rightly skips a run while those that were missed wait for each other.
    task = client.create(name="beat", interval_seconds=1, catch_up_mode="RUN_ALL_MISSED", overlap_policy="ALLOW",
                         **receiver.target("/beat"))
    receiver.wait("/beat", 2)
    clock.jump(60_000)
    receiver.wait("/beat", 62)
    clock.jump(-30_000)
    run_through(client, receiver, "back")
    clock.jump(30_000)
    count = len(receiver.to("/beat"))
    receiver.wait("/beat", count + 2)
    client.act(task["id"], "pause")
    until(lambda: all(t["status"] in ("COMPLETED", "SKIPPED") for t in client.all(f"/v1/tasks/{task['id']}/occurrences")), why="not all ended")
    calls = receiver.to("/beat")
    times = sorted(c.scheduled_ms for c in calls)
    counts(f"clock jumps +60 s, -30 s, +30 s: {len(times)} occurrences each second, none lost, none repeated")
    assert times == list(range(times[0], times[-1] + 1, 1000)), "lost or repeated"
    assert len({c.id for c in calls}) == len(calls)
    jumpy.stop()


def test_a_clock_set_back_while_the_server_was_down_repeats_nothing(jumpy, clock, receiver):
    client = jumpy.client()
    client.create(name="beat", interval_seconds=1, max_runs=3, **receiver.target("/beat"))
    receiver.wait("/beat", 3)
    waiting = one_time(client, clock, receiver, "waiting", 10 * 60_000)
    jumpy.stop()
    clock.jump(-60_000)
    jumpy.start()
    client = jumpy.client()
    run_through(client, receiver, "after")
    clock.jump(11 * 60_000)
    client.wait_for(waiting["id"], "COMPLETED")
    run_through(client, receiver, "after2")
    assert len(receiver.to("/beat")) == 3 and len(receiver.to("/waiting")) == 1
    jumpy.stop()
