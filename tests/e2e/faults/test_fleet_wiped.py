"""A queue that forgets thousands of tasks which wait in it: all of them run, once, and none before its time."""

import itertools
import os
import threading

import pytest

from fleet import Fleet
from redis import Redis
from server import Reply, at, now_ms, until

WAITING = 5000  # more than one batch
ONCE = 20  # of those may not run twice
RUNNING = 8
EACH = 1000  # in one request
NUMBERS = itertools.count()


@pytest.fixture
def queue():
    """One that nobody else has: it is wiped."""
    with Redis() as server:
        yield server


@pytest.fixture
def wiped_fleet(build, postgres, database, queue, tmp_path):
    room = (WAITING + ONCE) * 5 // 4  # a tenth is kept for higher priorities
    (tmp_path / "belfry.conf").write_text(f"[queue]\nwaiting = {room}\n")
    url = queue.url(prefix=f"w{os.getpid()}n{next(NUMBERS)}")
    fleet = Fleet(tmp_path / "fleet", postgres.url(database), ("--queue", url, "--events", url), "--config", str(tmp_path / "belfry.conf"),
                  workers=1, worker_arguments=[("--concurrency", str(RUNNING))])
    yield fleet.start().settled()
    print(fleet.log())  # which pytest shows of a test that failed
    fleet.close()


def create_many(client, bodies):
    """Their ids."""
    made = []
    for i in range(0, len(bodies), EACH):
        answer = client.post("/v1/tasks/batch", bodies[i:i + EACH])
        assert answer.status == 201, answer
        made += [t["id"] for t in answer.json["tasks"]]
    return made


def waits(fleet, count):
    status = fleet.status()
    return status and (status["queue"]["waiting"] or 0) >= count


def test_what_waited_in_a_redis_that_was_wiped_runs_once_and_in_time(wiped_fleet, queue, receiver):
    fleet, client = wiped_fleet, wiped_fleet.client()
    go = threading.Event()
    receiver.answer("/runs", Reply(hold=go))
    running = create_many(client, [{"run_at": at(now_ms()), **receiver.target("/runs", timeout_ms=120_000)}] * RUNNING)
    receiver.wait("/runs", RUNNING)
    due = at(now_ms() + 500)
    again = create_many(client, [{"run_at": due, **receiver.target("/waits")}] * WAITING)
    once = create_many(client, [{"run_at": due, "delivery": "AT_MOST_ONCE", **receiver.target("/once")}] * ONCE)
    until(lambda: waits(fleet, WAITING + ONCE), why=lambda: f"{fleet.status()}")
    assert queue.ask("FLUSHALL") == "OK"
    until(lambda: "queue_forgot" in fleet.log() and waits(fleet, WAITING), why=lambda: f"{fleet.status()}\n{fleet.log()[-3000:]}")
    go.set()
    calls = receiver.wait("/waits", WAITING, timeout_s=120)
    for task in running:
        client.wait_for(task, "COMPLETED")
    for task in once:
        assert "outcome unknown" in client.wait_for(task, "FAILED")["last_error"]
    until(lambda: not client.all("/v1/tasks?status=RUNNING,SCHEDULED"), why="something is left")
    assert len(receiver.to("/runs")) == RUNNING, "what ran meanwhile was run again"
    assert not receiver.to("/once")
    calls = receiver.to("/waits")
    assert sorted(c.id for c in calls) == sorted(again), "not each of them once"
    assert all(c.received_ms >= c.scheduled_ms for c in calls)
    assert {c.fence for c in calls} == {2}
