"""What can happen to a cluster and its database, one fault after the other or two at once, chosen by a seed.

A kind of fault has a beginning, which returns how it ends, and lasts a while in between. Whether it excuses that what was in flight runs
twice: only if a node dies, or is cut off for longer than it may be silent; for everything else the cluster has to make up. What was to last
for a moment and took longer, because the machine had other things to do, is judged by how long it took.

How long a node may be silent is counted in beats (cluster.beat), and so is how long faults last.
"""

import dataclasses
import signal
import threading
import typing

from server import now_ms, until

CUT_OFF = 0.8  # of the time after which a node is buried: it may be, if its last beat was a while ago
PROCESSES = ("node", "worker")  # of which there are several: two faults at once strike two of them
PROGRESS = 5  # calls between two faults
PROGRESS_TIMEOUT_S = 30


@dataclasses.dataclass
class Kind:
    begin: typing.Callable  # (chaos, whom it strikes) → what ends it, or None
    lasts: tuple = (0, 0)  # in `unit`: beats of a node, or another span that the chaos knows
    excuses: bool = False
    cuts_off: bool = False  # excuses, too, if it lasts too long
    lingers: bool = False  # the connections of before stay dead until their node gives them up, or is buried
    of: str = "node"  # whom it strikes, see Chaos.victims; of a server: one at a time, and over before a node is started again
    unit: str = "beat_s"


def kill(chaos, node):
    node.kill()
    return node.start


def stop(chaos, node):
    node.signal(signal.SIGSTOP)
    return lambda: node.signal(signal.SIGCONT)


def refuse(chaos, node):
    return chaos.on_wires(node, "refuse")


def reset(chaos, node):
    return chaos.on_wires(node, "reset")


def drop(chaos, node):
    return chaos.on_wires(node, "drop")


def delay(chaos, node):
    return chaos.on_wires(node, "delay", int(chaos.chance.uniform(10, 120) * chaos.beat_s) + 1)


def lose(chaos, node):
    return chaos.on_wires(node, "lose")


def lose_commit(chaos, node):
    return chaos.on_wires(node, "lose", b"COMMIT\0")


def restart_fast(chaos, node):
    chaos.postgres.stop("fast")
    return chaos.postgres.start


def restart_immediate(chaos, node):
    chaos.postgres.stop("immediate")
    return chaos.postgres.start


def terminate_one(chaos, node):
    chaos.postgres.terminate(chaos.database, 1)


def terminate_all(chaos, node):
    chaos.postgres.terminate(chaos.database)


def exhaust(chaos, node):
    chaos.postgres.exhaust(chaos.database, chaos.chance.choice((0, 2)))
    return lambda: chaos.postgres.exhaust(chaos.database, -1)


def skew(chaos, node):
    chaos.clocks[chaos.cluster.nodes.index(node)].jump(chaos.chance.choice((-1, 1)) * chaos.chance.randint(200, 90_000))


MOMENT, PAST_THE_LEASE = (0.1, 1.5), (6.5, 8)
KINDS = {
    "kill": Kind(kill, (0, 1), excuses=True),
    "SIGSTOP past the lease": Kind(stop, PAST_THE_LEASE, excuses=True),
    "SIGSTOP for a moment": Kind(stop, MOMENT, cuts_off=True),
    "refused past the lease": Kind(refuse, PAST_THE_LEASE, excuses=True),
    "refused for a moment": Kind(refuse, MOMENT, cuts_off=True),
    "reset": Kind(reset),
    "dropped past the lease": Kind(drop, PAST_THE_LEASE, excuses=True),
    "dropped for good, new ones pass": Kind(drop, excuses=True, lingers=True),
    "delayed": Kind(delay, (0.4, 1.6)),
    "answer lost": Kind(lose, (0.2, 0.8)),
    "answer to a commit lost": Kind(lose_commit, (0.2, 0.8)),
    "PostgreSQL restarted (fast)": Kind(restart_fast, (0, 1), of="database"),
    "PostgreSQL restarted (immediate)": Kind(restart_immediate, (0, 1), of="database"),
    "pg_terminate_backend, one": Kind(terminate_one, of="database"),
    "pg_terminate_backend, all": Kind(terminate_all, of="database"),
    "connections exhausted": Kind(exhaust, (0.4, 2), cuts_off=True, of="database"),
    "clock jumped": Kind(skew),
}

# How often each comes in twenty-five faults: what takes long is rare.
COMBINED = 0.25  # of them come together with the next
OFTEN = {"kill": 3, "reset": 2, "answer lost": 3, "answer to a commit lost": 3, "pg_terminate_backend, one": 2}


def draw(chance, count, kinds, often):
    """All kinds come if there are enough of them."""
    deck = [name for name in kinds for _ in range(often.get(name, 1))]
    names = []
    while len(names) < count:
        chance.shuffle(deck)
        names += deck
    return names[:count]


def are_apart(kinds, names):
    """No two of them strike one server."""
    servers = [kinds[name].of for name in names if kinds[name].of not in PROCESSES]
    return len(set(servers)) == len(servers)


def plan(chance, count, kinds, often):
    """Returns lists of names, those of two that come at once together."""
    names = draw(chance, count, kinds, often)
    planned = []
    while names:
        together = names[:2] if are_apart(kinds, names[:2]) and chance.random() < COMBINED else names[:1]
        names = names[len(together):]
        planned.append(together)
    return planned


class Chaos:
    """wires: for each node its wires to the database."""

    kinds, often = KINDS, OFTEN
    holding = "database"  # while it is away, nodes cannot write what has ended

    def __init__(self, cluster, postgres, database, wires, clocks, load, chance):
        self.cluster, self.postgres, self.database = cluster, postgres, database
        self.wires, self.clocks, self.load, self.chance = wires, clocks, load, chance
        self.beat_s = cluster.beat_s
        self.told = []

    def on_wires(self, node, verb, *arguments):
        return self.on(self.wires[self.cluster.nodes.index(node)], verb, *arguments)

    @staticmethod
    def on(wires, verb, *arguments):
        for wire in wires:
            getattr(wire, verb)(*arguments)
        return lambda: [wire.heal() for wire in wires]

    def victims(self, names):
        """For each of these faults one of those whom it strikes, and no two the same; None: a server."""
        crowds = {"node": self.cluster.nodes, "worker": getattr(self.cluster, "workers", ())}
        drawn = {of: iter(self.chance.sample(crowd, min(len(names), len(crowd)))) for of, crowd in crowds.items()}
        return [next(drawn[self.kinds[name].of], None) if self.kinds[name].of in drawn else None for name in names]

    def silence_s(self, kind):
        """How long whom it strikes may be silent."""
        return self.cluster.dead_s

    def strike(self, names):
        """These at once, on different nodes; returns when they are over."""
        begun = []
        for name, victim in zip(names, self.victims(names)):
            kind = self.kinds[name]
            self.told.append(f"{name} ({self.cluster.name_of(victim)})" if victim else name)
            fault = self.load.fault(name, kind.excuses, holds=kind.of == self.holding)
            begun.append((fault, kind.begin(self, victim)))
        lasts = max(self.chance.uniform(*self.kinds[name].lasts) * getattr(self, self.kinds[name].unit) for name in names)
        threading.Event().wait(lasts)  # the faults themselves
        for fault, end in sorted(begun, key=lambda b: self.kinds[b[0].kind].of in PROCESSES):
            kind = self.kinds[fault.kind]
            if end:
                end()
            fault.to_ms = now_ms()
            too_long = fault.to_ms - fault.from_ms > CUT_OFF * self.silence_s(kind) * 1000
            fault.excuses = fault.excuses or (kind.cuts_off and too_long)
            if kind.lingers:
                fault.to_ms += self.silence_s(kind) * 1000

    def progress(self):
        """The cluster goes on by itself: calls come again."""
        seen = len(self.load.receiver.calls)
        until(lambda: len(self.load.receiver.calls) >= seen + PROGRESS, PROGRESS_TIMEOUT_S,
              why=lambda: f"after {self.told[-3:]} nothing runs:\n{self.cluster.log()[-6000:]}")

    def plan(self, count):
        return plan(self.chance, count, self.kinds, self.often)

    def run(self, count):
        for names in self.plan(count):
            self.strike(names)
            self.progress()
