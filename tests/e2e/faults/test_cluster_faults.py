"""The fault campaign: three nodes under load, and everything that can happen to them and their database, with the receiver as oracle.

60 faults in ./test, 1,000 in ./test long. After the last one everything drains without help, and then: nothing acknowledged is lost,
nothing was early by the database's clock, no stale result was accepted, and only what was in flight at a fault that excuses it (chaos.py)
ran twice, under the same webhook-id and a higher fence. BELFRY_TEST_SEED=N plays the same faults again.
"""

import os
import random

import pytest

from chaos import Chaos
from cluster import LONG
from load import Load

PARTS = 20 if LONG else 1
FAULTS = 50 if LONG else 40  # in each part
BEAT_S = 0.5 if LONG else 0.2  # with less, a node that waits for its turn on a busy machine looks dead
LATE_MS = 20_000  # longer than any two faults and what is needed to find them


def new_seed():
    return int(os.environ.get("BELFRY_TEST_SEED", random.randrange(1 << 30)))


def record(load, cluster):
    """Everything that happened goes into a file, which stays when a test has failed; returns where it is."""
    path = cluster.folder / "record"
    calls = [f"{c.received_ms:.0f} {c.path} {c.id} attempt {c.attempt} fence {c.fence}: {c.status} at {c.answered_ms:.0f}" for c in load.receiver.calls]
    path.write_text("\n".join([*map(str, load.faults), *calls, cluster.log()]))
    return f"what happened is in {path}"


def conclude(load, cluster, counts, seed, what, late_ms=LATE_MS):
    try:
        report = load.finish()
        counts(f"{what}, seed {seed}: {report}")
        assert not report.wrong, "\n".join([str(report), *report.wrong[:20]])
        assert report.lost == report.early == report.stale == 0
        assert report.quantile(1) < late_ms, f"something waited for {report.quantile(1):.0f} ms: {report}"
    except AssertionError as e:
        raise AssertionError(f"seed {seed}: {e}\n{record(load, cluster)}") from None
    return report


@pytest.mark.parametrize("part", range(PARTS))
def test_a_cluster_under_every_kind_of_fault_loses_nothing_and_repeats_only_what_was_in_flight(
        make_cluster, postgres, database, wires, clocks, receiver, counts, part):
    seed = new_seed()
    chance = random.Random(seed)
    ways = [[wires.new(postgres.port)] for _ in range(3)]
    cluster = make_cluster([postgres.url(database, *(wire.port for wire in way)) for way in ways], env=[c.env for c in clocks],
                           beat_s=BEAT_S)
    load = Load(cluster, receiver, seed, creators=3, patience_s=2).start()
    try:
        Chaos(cluster, postgres, database, ways, clocks, load, chance).run(FAULTS)
    except AssertionError as e:
        raise AssertionError(f"seed {seed}, after {len(load.faults)} faults: {e}\n{record(load, cluster)}") from None
    report = conclude(load, cluster, counts, seed, f"campaign, part {part}")
    assert sum(report.faults.values()) == FAULTS and report.acknowledged > FAULTS
    cluster.stop()
