"""The fault campaign: three nodes under load, and everything that can happen to them and their database, with the receiver as oracle.

60 faults in ./test, 1,000 in ./test long. After the last one everything drains without help, and then: nothing acknowledged is lost,
nothing was early by the database's clock, no stale result was accepted, and only what was in flight at a fault that excuses it (chaos.py)
ran twice, under the same webhook-id and a higher fence. BELFRY_TEST_SEED=N plays the same faults again.
"""

import os
import random

import pytest

from chaos import Chaos
from load import Load

LONG = bool(os.environ.get("BELFRY_TEST_LONG"))
PARTS = 20 if LONG else 1  # a quiet machine is what it needs: ./test long
FAULTS = 50 if LONG else 30  # in each part
LATE_MS = 20_000  # longer than any two faults and what is needed to find them


def new_seed():
    return int(os.environ.get("BELFRY_TEST_SEED", random.randrange(1 << 30)))


def conclude(load, cluster, counts, seed, what):
    report = load.finish()
    counts(f"{what}, seed {seed}: {report}")
    assert not report.wrong, "\n".join([f"seed {seed}: {report}", *report.wrong[:20], cluster.log()[-6000:]])
    assert report.lost == report.early == report.stale == 0
    assert report.quantile(1) < LATE_MS, f"seed {seed}: something waited for {report.quantile(1):.0f} ms: {report}\n{cluster.log()[-6000:]}"
    return report


@pytest.mark.skipif(not LONG and "BELFRY_TEST_SEED" not in os.environ, reason="minutes of dense faults: ./test long, or BELFRY_TEST_SEED=n")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_cluster_under_every_kind_of_fault_loses_nothing_and_repeats_only_what_was_in_flight(
        make_cluster, postgres, database, wires, clocks, receiver, counts, part):
    seed = new_seed()
    chance = random.Random(seed)
    ways = [[wires.new(postgres.port)] for _ in range(3)]
    cluster = make_cluster([postgres.url(database, *(wire.port for wire in way)) for way in ways], env=[c.env for c in clocks])
    load = Load(cluster, receiver, seed, creators=3, patience_s=2).start()
    chaos = Chaos(cluster, postgres, database, ways, clocks, load, chance)
    try:
        chaos.run(FAULTS)
    except AssertionError as e:
        raise AssertionError(f"seed {seed}, after {len(load.faults)} faults: {e}") from None
    report = conclude(load, cluster, counts, seed, f"campaign, part {part}")
    assert sum(report.faults.values()) == FAULTS and report.acknowledged > FAULTS
    cluster.stop()
