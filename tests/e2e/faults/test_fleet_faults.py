"""The fault campaign on fleets: two control nodes and three workers under load, and everything that can happen to them, their database, their
queue and their events, with the receiver as oracle: as test_cluster_faults.py does it, and to the same invariants.

15 to 18 faults a fleet in ./test, more than 200 in ./test long. BELFRY_TEST_SEED=N plays the same faults again.
"""

import asyncio
import itertools
import os
import random
import signal
import threading

import pytest

from cluster import LONG
from fleet_chaos import VISIBILITY_S, FleetChaos, Siege
from load import Load
from server import at, now_ms, until
from test_cluster_faults import conclude, new_seed, record

pytestmark = pytest.mark.each_fleet

PARTS = 8 if LONG else 1
FAULTS = 26 if LONG else 18  # in each part
BEAT_S = 0.5 if LONG else 0.2
LATE_MS = 120_000  # while events are away little runs, and what waits adds up over several faults
NUMBERS = itertools.count()
HELD = 5000 if LONG else 500
HELD_BY_ENDED = 30
HOSTS = 16  # a worker has at most 256 connections to each


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
    faults = FAULTS if LONG else min(FAULTS, len(siege.kinds()))  # each kind once
    fleet = siege.fleet.start()
    load = Load(fleet, receiver, seed, creators=2, pause_s=0.02, patience_s=2).start()
    try:
        FleetChaos(siege, load, chance).run(faults)
    except AssertionError as e:
        raise AssertionError(f"seed {seed}, after {len(load.faults)} faults: {e}\n{record(load, fleet)}") from None
    report = conclude(load, fleet, counts, seed, f"campaign on {siege.topology}, part {part}", LATE_MS)
    assert sum(report.faults.values()) == faults and report.acknowledged > faults
    fleet.stop()


# ---- handed over ----


class Holding:
    """A receiver that answers nobody before it is told to, and holds thousands of calls on one thread: (webhook-id, fence) of each."""

    def __init__(self):
        self.calls = []
        self.loop = asyncio.new_event_loop()
        self.ports = []
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        assert started.wait(10)

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.go = asyncio.Event()
        self.loop.run_until_complete(self._listen())
        started.set()
        self.loop.run_forever()

    async def _listen(self):
        for i in range(HOSTS):
            server = await asyncio.start_server(self._serve, f"127.0.0.{i + 1}", 0, backlog=1024)
            self.ports.append(server.sockets[0].getsockname()[1])

    async def _serve(self, reader, writer):
        try:
            while True:
                text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                headers = dict(line.split(": ", 1) for line in text.splitlines()[1:] if ": " in line)
                await reader.readexactly(int(headers.get("content-length", 0)))
                self.calls.append((headers["webhook-id"], int(headers["belfry-fence"])))
                await self.go.wait()
                writer.write(b"HTTP/1.1 200 x\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def target(self, number):
        host = number % HOSTS
        return {"target_type": "HTTP_CALLBACK", "timeout_ms": 300_000,
                "target_config": {"url": f"http://127.0.0.{host + 1}:{self.ports[host]}/held"}}

    def release(self):
        self.loop.call_soon_threadsafe(self.go.set)

    def close(self):
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def _end(self):
        held = asyncio.all_tasks() - {asyncio.current_task()}
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)


@pytest.fixture
def holding():
    made = Holding()
    yield made
    made.close()


def test_a_control_nodes_death_repeats_nothing_that_the_queue_had_confirmed(make_fleet, fleet, postgres, holding, counts):
    # No worker gets more than it has connections for, and a tenth is kept for other classes. Both nodes are to claim some.
    one = make_fleet("--concurrency", str(HELD // 3 * (5 if LONG else 4) // 4 + 50)).settled()
    database = one.database
    client = one.client()
    due = at(now_ms() + 500)
    for first in range(0, HELD, 500):
        answer = client.post("/v1/tasks/batch", [{"run_at": due, **holding.target(i)} for i in range(first, min(first + 500, HELD))])
        assert answer.status in (200, 201) and len(answer.json["tasks"]) == min(500, HELD - first), answer
    until(lambda: len(holding.calls) == HELD, why=lambda: f"{len(holding.calls)} of {HELD} run\n{one.log()[-3000:]}")
    postgres.until("SELECT 1 WHERE NOT EXISTS (SELECT FROM claims WHERE hold = 0)", database)  # what was fired a moment ago may still be the node's
    held_by = [int(n) for n in postgres.sql("SELECT sum(cardinality(tasks)) FROM claims GROUP BY node", database)]
    killed, other = one.nodes
    killed_ms = now_ms()
    killed.kill()
    until(lambda: "node_marked_dead" in other.log(), why=lambda: f"nobody misses it\n{other.log()[-3000:]}")
    buried_ms = now_ms() - killed_ms
    holding.release()
    until(lambda: len(client.all("/v1/tasks?status=COMPLETED")) == HELD, why=lambda: f"not all are completed\n{one.log()[-3000:]}")
    counts(f"control node killed on {fleet}: {HELD} tasks ran on workers, claimed by the nodes {held_by}; it was buried after {buried_ms:.0f} ms; "
           f"{len(holding.calls) - HELD} ran again")
    assert len(holding.calls) == HELD and len({id for id, _ in holding.calls}) == HELD
    assert min(held_by) > 0 and len(held_by) == 2, "one of the nodes had claimed nothing: its death shows nothing"
    one.stop()


def test_what_was_published_before_its_worker_ended_is_not_lost_though_nobody_has_applied_it_yet(make_fleet, fleet, postgres, wires, holding, counts):
    one = make_fleet("--drain-deadline", "1s", wires=wires)
    client = one.client()
    for i in range(HELD_BY_ENDED):
        client.create(run_at=at(now_ms()), **holding.target(i))
    until(lambda: len(holding.calls) == HELD_BY_ENDED, why=lambda: f"{len(holding.calls)} of {HELD_BY_ENDED} run\n{one.log()[-3000:]}")
    postgres.until("SELECT 1 WHERE NOT EXISTS (SELECT FROM claims WHERE hold = 0)", one.database)
    one.signal(signal.SIGSTOP)  # the control nodes
    one.wire.refuse()  # so workers can publish, and not acknowledge
    holding.release()
    for worker in one.workers:
        worker.signal(signal.SIGTERM)
    for worker in one.workers:
        worker.ended()  # with all that it had published
    one.wire.heal()
    threading.Event().wait(VISIBILITY_S)  # the fault itself: what is not acknowledged lapses
    one.signal(signal.SIGCONT)
    for worker in one.workers:
        worker.start()
    until(lambda: len(client.all("/v1/tasks?status=COMPLETED")) == HELD_BY_ENDED, why=lambda: f"not all are completed\n{one.log()[-3000:]}")
    counts(f"workers ended on {fleet} between the results of {HELD_BY_ENDED} tasks and their acknowledgement: {len(holding.calls) - HELD_BY_ENDED} ran again")
    assert len(holding.calls) == HELD_BY_ENDED
    one.stop()
