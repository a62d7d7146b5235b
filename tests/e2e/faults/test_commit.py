"""Commits that fail, and commits whose answer is lost: what was asked for is repeated by whoever asked, and happens once."""

import os
import random

import pytest

from load import Load
from server import until

ROUNDS = 8


@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
def test_a_commit_that_fails_or_whose_answer_is_lost_loses_and_repeats_nothing(make_server, receiver, counts, place):
    seed = int(os.environ.get("BELFRY_TEST_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    server = make_server()
    load = Load(server, receiver, seed).start()
    for _ in range(ROUNDS):
        server.stop()
        server.start(env={"BELFRY_FAILPOINT": f"{place}:error:{chance.randint(1, 60)}"})
        seen = len(server.lines), len(receiver.calls)
        until(lambda: len(receiver.calls) > seen[1] + 15, why=lambda: f"it does not go on:\n{server.log()[-3000:]}")
        load.fault(place)
    failed = sum("failpoint" in line for line in server.lines)
    report = load.finish()
    counts(f"commits with an error {place}, seed {seed}: {report}")
    server.stop()
    assert not report.wrong, "\n".join([f"seed {seed}: {report}", *report.wrong[:20], server.log()[-3000:]])
    assert report.lost == 0 and report.duplicated == 0 and failed > 0
