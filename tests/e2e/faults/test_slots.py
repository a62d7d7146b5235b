"""kill -9 while tasks wait for slots: no limit is exceeded, every slot is freed, whoever waits goes on.

The receiver tells how many calls of a key were under way at once. What was in flight at a kill is an orphan from then on.
"""

import os
import random
import subprocess

import pytest

from oracle import most_at_once
from server import Reply, at, now_ms, until

pytestmark = pytest.mark.standalone("nodes are killed under limits in test_cluster_limits.py")

KILLS = 12
TASKS = 150
ROUNDS = 5 if os.environ.get("BELFRY_TEST_LONG") else 1
LIMITS = {"mutex": 1, "three": 3}


def wait_or_pass(server, seconds):
    try:
        server.process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass


@pytest.mark.parametrize("part", range(ROUNDS))
def test_limits_hold_through_kills_and_everything_drains(make_server, receiver, counts, part):
    seed = int(os.environ.get("BELFRY_TEST_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    server = make_server()
    client = server.client()
    for key in LIMITS:
        receiver.answer(f"/{key}", Reply(takes_s=0.015))
    receiver.answer("/beat", Reply(takes_s=0.4))
    bodies = [{"name": key, "run_at": at(now_ms() + chance.uniform(0, 3000)), "concurrency_key": key, "concurrency_limit": limit,
               "priority": chance.randrange(10), **receiver.target(f"/{key}")} for key, limit in LIMITS.items() for _ in range(TASKS)]
    chance.shuffle(bodies)
    made = [t["id"] for t in client.post("/v1/tasks/batch", bodies).json["tasks"]]
    beat = client.create(name="beat", interval_seconds=1, max_runs=8, overlap_policy="QUEUE_ALL", catch_up_mode="RUN_ALL_MISSED",
                         **receiver.target("/beat"))
    faults = []
    for _ in range(KILLS):
        wait_or_pass(server, chance.uniform(0.15, 0.5))
        faults.append(now_ms())
        server.kill()
        faults.append(now_ms())  # it may have sent something since the line before last
        server.start()

    def left():
        return [t["id"] for t in client.all("/v1/tasks?status=SCHEDULED,BLOCKED,RUNNING")]

    until(lambda: not left(), why=lambda: f"seed {seed}: not all drained: {left()}\n{server.log()[-3000:]}")
    states = {t["id"]: t["status"] for t in client.all("/v1/tasks")}
    assert {states[i] for i in made} == {"COMPLETED"} and states[beat["id"]] == "COMPLETED", f"seed {seed}: {states}"
    calls = {key: receiver.to(f"/{key}") for key in (*LIMITS, "beat")}
    most = {key: most_at_once(found, faults) for key, found in calls.items()}
    counts(f"slots, seed {seed}: {len(made)} tasks, {KILLS} kills, {sum(map(len, calls.values()))} calls; most at once {most}")
    assert most["mutex"] == 1 and most["three"] <= 3 and most["beat"] == 1, f"seed {seed}: {most}"
    assert {c.id for c in calls["mutex"]} | {c.id for c in calls["three"]} == set(made)
    server.stop()
