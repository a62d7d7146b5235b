"""What starts after the pause or the cancel of a run or of a recurring task was answered, if the worker or the queue that has its steps or occurrences
stands still, with the receiver as oracle."""

import os
import re
import signal
import threading
import time

import pytest

from fleet import Fleet
from redis import Redis
from server import Reply, now_ms, until
from test_workflows_api import act, ended, http, run, status, steps

STEPS = 50
FIRST_MS, APART_MS = 1500, 60  # after the start of the run; from one step to the next
WAY_MS = 90  # from the worker to its queue
TOO_LATE_MS = 200  # there and back it takes longer than a worker may rely on what it has heard
QUIET_S = 0.08
STILL_S = 0.3  # at least; also more than its clock is behind, as it learns the time by that way
EACH_S = 0.1  # the shortest interval of a recurring task
BUSY, WAITING, IN_QUEUE = 16, 20, 8


@pytest.fixture
def slow_fleet(make_fleet, wires):
    """Its only worker is far from the queue: when it is stopped, steps are on their way to it in every phase."""
    fleet = make_fleet(workers=0)
    port = int(re.search(r":(\d+)/", fleet.carriers[1])[1])
    fleet.wire = wires.new(port)
    fleet.carriers = (fleet.carriers[0], fleet.carriers[1].replace(f":{port}/", f":{fleet.wire.port}/"), *fleet.carriers[2:])
    fleet.add_worker("--concurrency", "64")
    fleet.wire.delay(WAY_MS)
    return fleet


def staggered(client, receiver):
    """A run whose steps become due one after the other, for three seconds."""
    made = [{"name": f"s{i}", "delay": f"{FIRST_MS + i * APART_MS}ms", **http(receiver, "/step")} for i in range(STEPS)]
    return run(client, definition={"steps": made})["id"]


def is_quiet(receiver):
    """The worker gets several steps at once, and their calls come together. Then it asks for more, which are on their way to it."""
    seen = len(receiver.to("/step"))
    time.sleep(QUIET_S)
    return len(receiver.to("/step")) == seen


def asked_while_it_stands_still(fleet, ask):
    """The answer, and the second in which the worker was stopped; it goes on in a later one."""
    fleet.workers[0].signal(signal.SIGSTOP)
    second = int(time.time())
    try:
        answer = ask()
        fleet.wire.heal()
        time.sleep(max(STILL_S, second + 1 + STILL_S - time.time()))
    finally:
        fleet.workers[0].signal(signal.SIGCONT)
    return answer, second


def begun_after(second, calls):
    """A worker begins at once all that it has taken together. If it is stopped then, their calls come when it goes on, however many they are. But
    each says in which second it was begun."""
    return [c for c in calls if int(c.headers["webhook-timestamp"]) > second]


@pytest.mark.each_fleet
@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_a_worker_that_stands_still_starts_nothing_that_was_stopped_meanwhile(slow_fleet, receiver, action):
    client = slow_fleet.client()
    made = staggered(client, receiver)
    receiver.wait("/step", 8)
    until(lambda: is_quiet(receiver), why="its calls come one after the other")
    answer, second = asked_while_it_stands_still(slow_fleet, lambda: client.post(f"/v1/workflows/{made}/{action}"))
    assert answer.status in (200, 202), answer
    if action == "pause":
        left = lambda: [s["status"] for s in steps(client, made, f"?limit={STEPS}").values() if s["status"] not in ("PAUSED", "COMPLETED")]
        until(lambda: not left(), why=lambda: f"{left()}")
    else:
        assert ended(client, made)["status"] == "CANCELLED"
    calls = receiver.to("/step")
    assert len(calls) < STEPS and not begun_after(second, calls), (len(calls), second, begun_after(second, calls), answer.status)
    if action == "pause":
        act(client, made, "resume")
        assert ended(client, made)["status"] == "COMPLETED"
        calls = receiver.to("/step")
        assert len(calls) == len({c.id for c in calls}) == STEPS, "each step is called once"


STOPS = {
    "pause": lambda client, task: client.post(f"/v1/tasks/{task}/pause"),
    "cancel": lambda client, task: client.post(f"/v1/tasks/{task}/cancel"),
    "delete": lambda client, task: client.request("DELETE", f"/v1/tasks/{task}"),
}


@pytest.mark.each_fleet
@pytest.mark.parametrize("stop", STOPS)
def test_a_worker_that_stands_still_starts_no_occurrence_of_a_task_that_was_stopped_meanwhile(slow_fleet, receiver, stop):
    client = slow_fleet.client()
    made = client.create(interval_seconds=EACH_S, overlap_policy="ALLOW", **receiver.target("/step"))["id"]
    receiver.wait("/step", 8)
    until(lambda: is_quiet(receiver), why="its calls come one after the other")
    answer, second = asked_while_it_stands_still(slow_fleet, lambda: STOPS[stop](client, made))
    assert answer.status in (200, 204), answer
    running = lambda: [t["id"] for t in client.all(f"/v1/tasks/{made}/occurrences") if t["status"] in ("RUNNING", "SCHEDULED")]
    until(lambda: stop == "delete" or not running(), why=lambda: f"{running()}")
    done = client.create(**receiver.target("/done"))["id"]  # behind whatever the worker has
    client.wait_for(done, "COMPLETED")
    assert not begun_after(second, receiver.to("/step"))


@pytest.mark.each_fleet
def test_a_worker_whose_queue_answers_too_late_says_so_and_starts_nothing_until_it_is_faster(slow_fleet, receiver):
    client, worker = slow_fleet.client(), slow_fleet.workers[0]
    slow_fleet.wire.delay(TOO_LATE_MS)
    made = client.create(**receiver.target("/late"))["id"]
    until(lambda: "queue_slow" in worker.log(), why=worker.log)
    assert not receiver.to("/late") and "limit_ms=300" in worker.log()
    slow_fleet.wire.heal()
    client.wait_for(made, "COMPLETED")
    assert len(receiver.to("/late")) == 1


@pytest.mark.each_fleet
def test_a_pause_is_answered_200_if_its_steps_run(make_fleet, receiver):
    client = make_fleet(workers=1).client()
    receiver.answer("/long", Reply(takes_s=3))
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/long")}, {"name": "b", "depends_on": ["a"], **http(receiver, "/next")}]})["id"]
    receiver.wait("/long")
    begun_ms = now_ms()
    answer = client.post(f"/v1/workflows/{made}/pause")
    assert answer.status == 200 and now_ms() - begun_ms < 2000, answer
    until(lambda: status(client, made)["by_status"].get("PAUSED") == 1, why=lambda: f"{status(client, made)}")
    assert not receiver.to("/next")
    act(client, made, "resume")
    assert ended(client, made)["status"] == "COMPLETED"


@pytest.fixture
def still_fleet(build, postgres, database, tmp_path):
    """make(*worker arguments): one worker, and a queue in a Redis of its own, fleet.redis, that may be stopped."""
    with Redis() as redis:
        carriers = ("--queue", redis.url(prefix=f"s{os.getpid()}"), "--events", redis.url(prefix=f"s{os.getpid()}"))
        made = []

        def make(*arguments):
            fleet = Fleet(tmp_path / "fleet", postgres.url(database), carriers, workers=1, worker_arguments=[arguments])
            fleet.redis = redis
            made.append(fleet)
            return fleet.start()

        yield make
        redis.go_on()
        for fleet in made:
            print(fleet.log())
            fleet.close()


@pytest.mark.parametrize("stop", ["cancel", "delete"])
@pytest.mark.parametrize("still_s", [1, 1.3])
def test_a_stop_is_answered_when_a_queue_that_stood_still_has_given_occurrences_back(still_fleet, receiver, stop, still_s):
    fleet = still_fleet("--concurrency", str(BUSY))
    client = fleet.client()
    go = threading.Event()
    receiver.answer("/busy", Reply(hold=go))
    for _ in range(BUSY):
        client.create(priority=9, **receiver.target("/busy"))
    receiver.wait("/busy", BUSY)
    made = client.create(interval_seconds=3600, overlap_policy="ALLOW", **receiver.target("/step"))["id"]
    for _ in range(WAITING):
        client.post(f"/v1/tasks/{made}/run-now")
    until(lambda: (fleet.status().get("queue") or {}).get("waiting") >= IN_QUEUE, why=lambda: f"{fleet.status()}")
    fleet.redis.pause()
    go.set()
    again = threading.Timer(still_s, fleet.redis.go_on)
    again.start()
    answer = STOPS[stop](client, made)
    seen = len(receiver.to("/step"))
    assert answer.status in (200, 204), answer
    again.join()
    done = client.create(**receiver.target("/done"))["id"]
    client.wait_for(done, "COMPLETED")
    assert len(receiver.to("/step")) <= seen, (seen, len(receiver.to("/step")))


def test_a_pause_is_answered_202_while_the_queue_stands_still_and_steps_that_wait_there_are_taken_back(still_fleet, receiver):
    fleet = still_fleet("--concurrency", "1")
    client = fleet.client()
    receiver.answer("/busy", Reply(takes_s=3))
    client.create(priority=9, **receiver.target("/busy"))
    receiver.wait("/busy")
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/step")}]})["id"]
    until(lambda: (fleet.status().get("queue") or {}).get("waiting") == 1, why=lambda: f"{fleet.status()}")
    fleet.redis.pause()
    answer = client.post(f"/v1/workflows/{made}/pause")
    assert answer.status == 202 and answer.json["paused"], answer
    fleet.redis.go_on()
    until(lambda: steps(client, made)[("a", None, "STEP")]["status"] == "PAUSED", why=lambda: f"{steps(client, made)}")
    assert not receiver.to("/step")
    act(client, made, "resume")
    assert ended(client, made)["status"] == "COMPLETED" and len(receiver.to("/step")) == 1
