"""What can happen to a fleet: to its control nodes, its workers, their database, their queue and their events (chaos.py says how faults come).

Every process has a wire of its own to the queue, and each control node one to the database; all share one to Kafka, which tells its clients
where to go on. What a fault excuses follows from who owns a task then. A queue that forgot or closed its deliveries, or whose answer to a push
was lost, leaves open whether they run; a worker that was silent for its visibility has lost them. But as long as workers can renew what they
run nothing may run twice, whatever becomes of the events and for however long.
"""

import signal
import threading
import time

from chaos import MOMENT, PAST_THE_LEASE, Chaos, Kind, are_apart, draw, kill, stop
from cluster import LONG
from fleet import Fleet

VISIBILITY_S = 4  # of a delivery; on RabbitMQ it is over when the broker misses two beats of the connection's heart
HEARTBEAT_S = 1
PAST_THE_VISIBILITY = (1.1, 1.3)
PAST_THE_BUFFERS = (1, 1.5)
BUFFERS_S = 4 if LONG else 2  # CONCURRENCY outcomes come sooner than that, and then a worker takes no more
CONCURRENCY = 20


# ---- the database ----


def refuse_database(chaos, node):
    return chaos.on(chaos.to_database[chaos.cluster.nodes.index(node)], "refuse")


def reset_database(chaos, node):
    return chaos.on(chaos.to_database[chaos.cluster.nodes.index(node)], "reset")


def restart_database(chaos, _):
    chaos.postgres.stop("immediate")
    return chaos.postgres.start


# ---- the queue, and RabbitMQ's events ----


def refuse_queue(chaos, _):
    return chaos.on(chaos.to_queue, "refuse")


def drop_queue(chaos, _):
    """Nobody is told. When it passes again, who was silent for good must connect anew."""
    return chaos.on(chaos.to_queue, "drop")


def lose_answer(chaos, process):
    return chaos.on([chaos.wire_of(process)], "lose")


def cut_one_off(chaos, process):
    return chaos.on([chaos.wire_of(process)], "refuse")


def kill_redis(chaos, _):
    chaos.queue.stop(signal.SIGKILL)
    return chaos.queue.start


def flush_redis(chaos, _):
    assert chaos.queue.ask("FLUSHALL") == "OK"


def restart_redis(chaos, _):
    """It comes back with all that it had when it was asked to go."""
    assert chaos.queue.ask("SAVE") == "OK"
    chaos.queue.stop()

    def back():
        chaos.queue.start()
        (chaos.queue.folder / "dump.rdb").unlink()

    return back


def age_redis(chaos, _):
    """It comes back as it was some time ago, as a replica does that was behind."""
    assert chaos.queue.ask("SAVE") == "OK"

    def back():
        chaos.queue.stop(signal.SIGKILL)
        chaos.queue.start()
        (chaos.queue.folder / "dump.rdb").unlink()

    return back


def pause_redis(chaos, _):
    chaos.queue.pause()
    return chaos.queue.go_on


def restart_rabbit(chaos, _):
    chaos.queue.stop()
    return chaos.queue.start


def kill_rabbit(chaos, _):
    """A quorum queue that is younger than the delayed writes of its term (dets: 3 s) comes back without a leader, which is RabbitMQ's own fault."""
    threading.Event().wait(max(0, chaos.begun_s + 5 - time.monotonic()))
    chaos.queue.kill()
    return chaos.queue.start


# ---- the events ----


def kill_kafka(chaos, _):
    chaos.events.stop()
    return chaos.events.start


def restart_kafka(chaos, _):
    chaos.events.stop(signal.SIGTERM)
    return chaos.events.start


def cut_kafka_off(chaos, _):
    return chaos.on(chaos.to_events, "refuse")


def drop_kafka(chaos, _):
    return chaos.on(chaos.to_events, "drop")


def pause_kafka(chaos, _):
    chaos.events.pause()
    return chaos.events.go_on


PROCESSES = {
    "worker killed": Kind(kill, (0, 1), excuses=True, of="worker"),
    "worker stopped past its visibility": Kind(stop, PAST_THE_VISIBILITY, excuses=True, of="worker", unit="visibility_s"),
    "worker stopped for a moment": Kind(stop, MOMENT, cuts_off=True, of="worker"),
    "worker cut off past its visibility": Kind(cut_one_off, PAST_THE_VISIBILITY, excuses=True, of="worker", unit="visibility_s"),
    "answer to a worker lost": Kind(lose_answer, (0.2, 0.8), excuses=True, of="worker"),
    "answer to a node lost": Kind(lose_answer, (0.2, 0.8), excuses=True),
    "node killed": Kind(kill, (0, 1), excuses=True),
    "node stopped past its lease": Kind(stop, PAST_THE_LEASE, excuses=True),
    "node stopped for a moment": Kind(stop, MOMENT, cuts_off=True),
    "node cut off from PostgreSQL": Kind(refuse_database, MOMENT, cuts_off=True),
    "connections to PostgreSQL reset": Kind(reset_database),
    "PostgreSQL restarted": Kind(restart_database, (0, 1), of="database"),
}
ON_REDIS = {
    "Redis killed, back empty": Kind(kill_redis, (0, 2), excuses=True, of="queue"),
    "Redis flushed": Kind(flush_redis, of="queue"),
    "Redis restarted": Kind(restart_redis, (0, 2), excuses=True, of="queue"),
    "Redis as it was before": Kind(age_redis, (1, 3), excuses=True, of="queue"),
    "Redis cut off": Kind(refuse_queue, PAST_THE_BUFFERS, excuses=True, of="queue", unit="buffers_s"),
    "Redis silent": Kind(pause_redis, (1, 4), excuses=True, of="queue"),
    "Redis cut off past the visibility": Kind(drop_queue, PAST_THE_VISIBILITY, excuses=True, of="queue", unit="visibility_s"),
}
ON_KAFKA = {
    "Kafka killed": Kind(kill_kafka, (0, 2), of="events"),
    "Kafka restarted": Kind(restart_kafka, (0, 2), of="events"),
    "Kafka cut off past the buffers": Kind(cut_kafka_off, PAST_THE_BUFFERS, of="events", unit="buffers_s"),
    "Kafka silent past the buffers": Kind(drop_kafka, PAST_THE_BUFFERS, of="events", unit="buffers_s"),
}
ON_A_MOCK = {"Kafka silent past the buffers": Kind(pause_kafka, PAST_THE_BUFFERS, of="events", unit="buffers_s")}
ON_RABBITMQ = {
    "RabbitMQ restarted": Kind(restart_rabbit, (0, 1), excuses=True, of="queue"),
    "RabbitMQ killed": Kind(kill_rabbit, (0, 1), excuses=True, of="queue"),
    "RabbitMQ cut off past the buffers": Kind(refuse_queue, PAST_THE_BUFFERS, excuses=True, of="queue", unit="buffers_s"),
    "RabbitMQ silent past the buffers": Kind(drop_queue, PAST_THE_BUFFERS, excuses=True, of="queue", unit="buffers_s"),
}
START_S = {"Kafka killed": 5, "Kafka restarted": 5, "RabbitMQ killed": 5, "RabbitMQ restarted": 5}  # at least
LONG_ONLY = ("Kafka restarted", "Kafka silent past the buffers", "Redis cut off past the visibility", "RabbitMQ killed")  # slow, and each has one like it
OFTEN = {"worker killed": 2, "node killed": 2, "answer to a worker lost": 2, "answer to a node lost": 2, "Redis flushed": 2}


class Siege:
    """A fleet, and every wire that leads from it."""

    def __init__(self, topology, folder, postgres, database, queue, events, wires, prefix, beat_s):
        self.topology, self.postgres, self.queue, self.events = topology, postgres, queue, events
        self.rabbit = topology == "fleet-amqp"
        self.to_database = [[wires.new(postgres.port)] for _ in range(2)]
        self.to_events = []
        self.to_queue = [wires.new(queue.ports["amqp"] if self.rabbit else queue.port) for _ in range(5)]
        if not self.rabbit and not events.is_mock:
            self.to_events = [wires.new(events.wired_port, events.wire_port)]
        ways = [self._carriers(wire.port, prefix) for wire in self.to_queue]
        self.fleet = Fleet(folder, [postgres.url(database, *(wire.port for wire in way)) for way in self.to_database], (), "--concurrency",
                           str(CONCURRENCY), env=ways[:2], worker_envs=ways[2:], beat_s=beat_s)

    def _carriers(self, port, prefix):
        if self.rabbit:
            url = self.queue.url(port, prefix=prefix, heartbeat=f"{HEARTBEAT_S}s")
            return {"BELFRY_QUEUE": url, "BELFRY_EVENTS": url}
        events = self.events.url(prefix=prefix, **({} if self.events.is_mock else {"port": self.events.wire_port}))
        return {"BELFRY_QUEUE": self.queue.url(prefix=prefix).replace(f":{self.queue.port}/", f":{port}/"), "BELFRY_EVENTS": events}

    def kinds(self):
        carriers = ON_RABBITMQ if self.rabbit else {**ON_REDIS, **(ON_A_MOCK if self.events.is_mock else ON_KAFKA)}
        return {name: kind for name, kind in {**PROCESSES, **carriers}.items() if LONG or name not in LONG_ONLY}

    def heal(self):
        """For whoever uses the servers next."""
        for server in (self.queue, self.events, self.postgres):
            server.start()


class FleetChaos(Chaos):
    often = OFTEN
    holding = "events"  # while they are away, workers cannot report what has ended; without the database, nodes leave it with the events

    def __init__(self, siege, load, chance):
        super().__init__(siege.fleet, siege.postgres, None, None, None, load, chance)
        self.queue, self.events = siege.queue, siege.events
        self.to_queue, self.to_database, self.to_events = siege.to_queue, siege.to_database, siege.to_events
        self.kinds = siege.kinds()
        self.visibility_s = 2 * HEARTBEAT_S + 1 if siege.rabbit else VISIBILITY_S
        self.buffers_s = BUFFERS_S
        self.begun_s = time.monotonic()  # the queues were declared then

    def plan(self, count):
        """In ./test all come in pairs, of which both last about as long: there is no time for one after the other."""
        if LONG:
            return super().plan(count)
        lasts_s = lambda name: max(self.kinds[name].lasts[1] * getattr(self, self.kinds[name].unit), START_S.get(name, 0))
        names = sorted(draw(self.chance, count, self.kinds, {}), key=lasts_s)
        planned = []
        while names:
            first = names.pop(0)
            other = next((name for name in names if are_apart(self.kinds, (first, name))), None)
            if other:
                names.remove(other)
            planned.append([first, other] if other else [first])
        self.chance.shuffle(planned)
        return planned

    def silence_s(self, kind):
        return self.visibility_s if kind.of == "worker" else super().silence_s(kind)

    def wire_of(self, process):
        return self.to_queue[[*self.cluster.nodes, *self.cluster.workers].index(process)]
