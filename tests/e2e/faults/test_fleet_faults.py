"""The fault campaign on fleets: two control nodes and three workers under load, and everything that can happen to them, their database, their
queue and their events, with the receiver as oracle: as test_cluster_faults.py does it, and to the same invariants.

18 faults a fleet in ./test, 200 in ./test long. BELFRY_TEST_SEED=N plays the same faults again.
"""

import itertools
import os
import random

import pytest

from cluster import LONG
from fleet_chaos import FleetChaos, Siege
from load import Load
from test_cluster_faults import conclude, new_seed, record

PARTS = 8 if LONG else 1
FAULTS = 26 if LONG else 18  # in each part
BEAT_S = 0.5 if LONG else 0.2
LATE_MS = 60_000  # longer than any two faults and what is needed to find them
NUMBERS = itertools.count()


@pytest.fixture
def siege(fleet, request, postgres, database, wires, build, tmp_path):
    rabbit = fleet == "fleet-amqp"
    queue = request.getfixturevalue("rabbitmq_server" if rabbit else "redis_server")
    events = queue if rabbit else request.getfixturevalue("kafka_server")
    made = Siege(fleet, tmp_path / "fleet", postgres, database, queue, events, wires, f"s{os.getpid()}n{next(NUMBERS)}", BEAT_S)
    yield made
    made.fleet.close()
    made.heal()


@pytest.mark.parametrize("part", range(PARTS))
def test_a_fleet_under_every_kind_of_fault_loses_nothing_and_repeats_only_what_was_in_flight(siege, receiver, counts, part):
    seed = new_seed()
    chance = random.Random(seed)
    fleet = siege.fleet.start()
    load = Load(fleet, receiver, seed, creators=2, pause_s=0.02, patience_s=2).start()
    try:
        FleetChaos(siege, load, chance).run(FAULTS)
    except AssertionError as e:
        raise AssertionError(f"seed {seed}, after {len(load.faults)} faults: {e}\n{record(load, fleet)}") from None
    report = conclude(load, fleet, counts, seed, f"campaign on {siege.topology}, part {part}", LATE_MS)
    assert sum(report.faults.values()) == FAULTS and report.acknowledged > FAULTS
    fleet.stop()
