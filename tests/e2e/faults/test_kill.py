"""kill -9 under load, at random moments and at each named failpoint, with the receiver as oracle.

200 kills in ./test, 2,000 in ./test long. After the last one everything drains without help, and then: nothing acknowledged
is lost, nothing was early, and only what was in flight at a kill ran twice, under the same webhook-id and a higher fence.
"""

import os
import random
import signal
import subprocess

import pytest

from load import Load
from server import TIMEOUT_S, until

pytestmark = pytest.mark.standalone("nodes of a cluster are killed in test_cluster_faults.py")

ROUNDS = 20 if os.environ.get("BELFRY_TEST_LONG") else 1  # not longer ones: what meets many kills looks like poison
RANDOM_KILLS = 14  # in each of 4 tests
FAILPOINT_KILLS = 7  # at each of 7 failpoints

# Which pass of a failpoint is the last: each is passed so often that these come within some tenths of a second.
FAILPOINTS = {"before_commit": 60, "after_commit": 60, "before_call": 25, "after_call": 25, "before_settle": 15, "after_settle": 15,
              "before_fire": 15}


def retry_blamed(server):
    """Kills that follow a task wherever it goes make it look like poison. It is not lost: whoever looks through the dead letters
    sends it again, as here."""
    client = server.client()
    until(lambda: not client.get("/v1/scheduler/status").json["node"]["recovering"], why="it did not recover")
    blamed = [t["id"] for t in client.all("/v1/dlq") if t["last_error"].startswith("poison: ")]
    for task in blamed:
        answer = client.post(f"/v1/dlq/{task}/retry")
        assert answer.status == 200, answer
    client.close()
    return len(blamed)


def conclude(load, server, counts, seed, what):
    blamed = retry_blamed(server)
    what += f", {blamed} blamed and sent again" if blamed else ""
    report = load.finish()
    counts(f"{what}, seed {seed}: {report}")
    server.stop()
    assert not report.wrong, "\n".join([f"seed {seed}: {report}", *report.wrong[:20], server.log()[-3000:]])
    assert report.lost == 0 and report.early == 0
    return report


@pytest.mark.parametrize("part", range(4 * ROUNDS))
def test_kills_at_random_moments_lose_nothing(make_server, receiver, counts, part):
    seed = int(os.environ.get("BELFRY_TEST_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    server = make_server()
    load = Load(server, receiver, seed).start()
    for _ in range(RANDOM_KILLS):
        try:
            server.process.wait(chance.uniform(0.02, 0.4))
        except subprocess.TimeoutExpired:
            pass
        load.fault("kill")
        server.kill()
        server.start()
    report = conclude(load, server, counts, seed, f"random kills, part {part}")
    assert report.acknowledged > RANDOM_KILLS


@pytest.mark.parametrize("part", range(ROUNDS))
@pytest.mark.parametrize("place", FAILPOINTS)
def test_kills_at_a_failpoint_lose_nothing(make_server, receiver, counts, place, part):
    seed = int(os.environ.get("BELFRY_TEST_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    server = make_server()
    load = Load(server, receiver, seed).start()
    load.fault("kill")
    server.kill()
    for _ in range(FAILPOINT_KILLS):
        # Not the first pass: a process that dies whenever the first task runs is what a poison task looks like.
        server.start(env={"BELFRY_FAILPOINT": f"{place}:kill:{chance.randint(2, FAILPOINTS[place])}"})
        assert server.ended(TIMEOUT_S) == -signal.SIGKILL, server.log()
        load.fault(place)
    server.start()
    report = conclude(load, server, counts, seed, f"kills at {place}, part {part}")
    assert report.faults[place] == FAILPOINT_KILLS
