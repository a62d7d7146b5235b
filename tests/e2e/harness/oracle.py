"""The judge of the fault tests: what clients were told, what the receiver got and what the tasks became, held to the
invariants that hold under every fault. It knows nothing of Belfry's insides. test_oracle.py plants each bug it must catch.

Only of what was in flight at a fault may anything run twice: a repeat of a call needs a fault between the two that came
within IN_FLIGHT_MS of the first, a higher fence and the same webhook-id. The receiver's threads may write a call down a little
after it came: then the orphan of a fault may stand behind it, and even behind its own repeat. So may what was in a queue that was away when its
push was not answered, and is delivered when that is back: that fault lies before the repeat, not before the orphan.

A fault is a moment or lasts for a while. Not every one excuses a repeat: while a node is cut off for longer than it may be silent its work
is others', but when the database is away for all of them, or for a moment, nothing may run twice. Events that are away excuse nothing, but as
long as they are results are nowhere but with the workers that have them, and so in flight (holds): a worker that dies then takes them along.
In a cluster the same goes for a database that is away, and nodes.
"""

import collections
import dataclasses

from server import to_ms

IN_FLIGHT_MS = 5000  # from the call to its settlement, on a machine with better things to do
LAG_MS = 1000  # of the receiver's threads behind what is in their sockets
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "SKIPPED", "EXPIRED"}


@dataclasses.dataclass
class Asked:
    """A one-time task that a client asked for, at a path of its own; id is None until it was acknowledged."""

    path: str
    due_ms: float = 0
    id: str = None
    max_attempts: int = 1  # of those that fail by our own reply
    stopped_ms: float = None  # when its cancel was acknowledged


@dataclasses.dataclass
class Beat:
    """A recurring task, at a path of its own: each of its interval's times fires once."""

    path: str
    id: str
    interval_ms: int
    until_ms: float  # everything due before this has to be there


@dataclasses.dataclass
class Fault:
    kind: str
    from_ms: float
    to_ms: float = None  # None: a moment
    excuses: bool = True  # what was in flight may run twice
    holds: bool = False  # what ends meanwhile stays in flight until it is over

    def overlaps(self, from_ms, to_ms):
        return self.from_ms <= to_ms and from_ms <= (self.to_ms or self.from_ms)

    def met(self, from_ms, to_ms):
        return self.excuses and self.overlaps(from_ms, to_ms)


@dataclasses.dataclass
class Report:
    tasks: int = 0
    acknowledged: int = 0
    calls: int = 0
    lost: int = 0
    duplicated: int = 0  # allowed ones
    early: int = 0
    stale: int = 0  # results that were accepted and came from a call that another had replaced
    stopped: int = 0
    occurrences: int = 0
    late_ms: list = dataclasses.field(default_factory=list)
    faults: dict = dataclasses.field(default_factory=dict)
    wrong: list = dataclasses.field(default_factory=list)

    def blame(self, text):
        self.wrong.append(text)

    def quantile(self, q):
        late = sorted(self.late_ms) or [0]
        return late[min(int(q * len(late)), len(late) - 1)]

    def __str__(self):
        faults = ", ".join(f"{n} × {kind}" for kind, n in sorted(self.faults.items())) or "none"
        return (f"{sum(self.faults.values())} faults, {self.tasks} tasks, {self.acknowledged} acknowledged, {self.stopped} cancelled, {self.occurrences} occurrences, {self.calls} calls; {faults}; "
                f"lost {self.lost}, duplicated {self.duplicated}, early {self.early}, stale {self.stale}; late p50 {self.quantile(0.5):.0f} "
                f"p99 {self.quantile(0.99):.0f} max {self.quantile(1):.0f} ms")


def ends_ms(call, calls, faults_ms, only_repeated=False):
    """When a call was no more Belfry's: it was answered, or its caller died, which leaves an orphan. One that is written down after the
    fault is known by its arrival, or by its repeat, under a higher fence; where others than the caller may have died (only_repeated), all are
    known by that. A task that was lost too often is not repeated."""
    came_ms = call.received_ms if call.arrived_ms is None else min(call.arrived_ms, call.received_ms)
    died = [ms for ms in faults_ms if came_ms <= ms <= call.answered_ms]
    repeated = any(c.id == call.id and c.attempt == call.attempt and c.fence > call.fence for c in calls)
    if died and (repeated or not only_repeated):
        return max(min(died), call.received_ms)
    late = any(call.received_ms - LAG_MS <= ms <= call.received_ms for ms in faults_ms)
    return call.received_ms if repeated and late else call.answered_ms


def most_at_once(calls, faults_ms=(), only_repeated=False):
    """How many of the calls were under way at the same moment. One that ends as another begins is not beside it."""
    moments = sorted([(c.received_ms, 1) for c in calls] + [(ends_ms(c, calls, faults_ms, only_repeated), -1) for c in calls])
    most = now = 0
    for _, step in moments:
        now += step
        most = max(most, now)
    return most


def assert_none_dropped(task, runs, max_runs, interval_ms=1000):
    """`runs` are all occurrences of a task that has ended: of every time between its first and its last it says what became of it."""
    times = sorted(to_ms(r["scheduled_for"]) for r in runs)
    ran = [r for r in runs if r["status"] == "COMPLETED"]
    between = (times[-1] - times[0]) / interval_ms + 1
    listed = [(r["scheduled_for"], r["status"], r["last_error"]) for r in runs]
    assert len(ran) == task["runs_count"] == max_runs, listed
    assert len(ran) + task["skipped_count"] == between == len(runs), f"{between} times, {task['skipped_count']} skipped: {listed}"


def settled_ms(call, faults):
    """By when its result is known, if nobody dies."""
    at = call.received_ms + IN_FLIGHT_MS
    held = [(f.to_ms or f.from_ms) + IN_FLIGHT_MS for f in faults if f.holds and f.overlaps(call.received_ms, at)]
    return max([at, *held])


def check_order(report, calls, faults, finals_seen):
    """The calls of one webhook-id."""
    calls = sorted(calls, key=lambda c: c.fence)
    first = calls[0]
    for before, call in zip(calls, calls[1:]):
        what = f"{call.path} {call.id} at {call.received_ms:.0f} (fence {call.fence}) after {before.received_ms:.0f} (fence {before.fence})"
        if call.fence <= before.fence:
            report.blame(f"fence did not rise: {what}")
        if call.attempt > before.attempt:
            if before.status and before.status < 300:
                report.blame(f"tried again after a success: {what}")
            continue  # a retry that we asked for by our reply
        report.duplicated += 1
        in_flight = (before.received_ms - LAG_MS, min(call.received_ms, settled_ms(before, faults)))
        if call.received_ms < before.received_ms - LAG_MS:  # a queue that came back still had what another had replaced meanwhile
            in_flight = (call.scheduled_ms - LAG_MS, call.received_ms)
        if not any(f.met(*in_flight) for f in faults):
            report.blame(f"repeated without a fault in between: {what}")
    seen_ms = finals_seen.get(first.id)
    if seen_ms is not None and calls[-1].received_ms > seen_ms:
        report.blame(f"ran after it was seen final: {first.path} {first.id}")


def check_accepted(report, calls, executions):
    """Of a task that was called more than once: of what was accepted nobody had a later fence, and one result ended it."""
    ended = [x for x in executions if x["status"] == "COMPLETED"]
    if len(ended) > 1:
        report.stale += 1
        report.blame(f"more than one result was accepted: {calls[0].path} {calls[0].id} {executions}")
    last = max(c.fence for c in calls)
    for x in ended:
        if x["fence"] < last:
            report.stale += 1
            report.blame(f"a stale result was accepted: {calls[0].path} {calls[0].id}, of fence {x['fence']}, though {last} was called")


def check_stopped(report, asked, calls, states):
    """It may have been called before, and the receiver may have written that down a moment later."""
    report.stopped += 1
    if any(c.received_ms > asked.stopped_ms + LAG_MS for c in calls):
        report.blame(f"ran after an acknowledged cancel: {asked.path} {asked.id}")
    if states.get(asked.id) != "CANCELLED":
        report.blame(f"was cancelled and is {states.get(asked.id)}: {asked.path} {asked.id}")


def check_asked(report, asked, calls, states):
    report.tasks += 1
    if {c.id for c in calls} - {asked.id} and asked.id is not None:
        report.blame(f"more than one task for one idempotency key: {asked.path} {asked.id} {[c.id for c in calls]}")
    for call in calls:
        if call.received_ms < asked.due_ms:
            report.early += 1
            report.blame(f"early by {asked.due_ms - call.received_ms:.3f} ms: {asked.path} {call.id}")
    if asked.id is None:
        return
    report.acknowledged += 1
    if asked.stopped_ms is not None:
        check_stopped(report, asked, calls, states)
        return
    if not calls:
        report.lost += 1
        report.blame(f"lost: {asked.path} {asked.id}, which is {states.get(asked.id)}")
        return
    report.late_ms.append(calls[0].received_ms - asked.due_ms)
    if states.get(asked.id) not in FINAL:
        report.blame(f"has no final state: {asked.path} {asked.id}, which is {states.get(asked.id)}")
    if max(c.attempt for c in calls) > asked.max_attempts:
        report.blame(f"too many attempts: {asked.path} {asked.id}")


def check_beat(report, beat, calls):
    report.tasks += 1
    report.acknowledged += 1
    by_time = collections.defaultdict(set)
    for call in calls:
        by_time[call.scheduled_ms].add(call.id)
        if call.received_ms < call.scheduled_ms:
            report.early += 1
            report.blame(f"early by {call.scheduled_ms - call.received_ms:.3f} ms: {beat.path} {call.id}")
    report.occurrences += len(by_time)
    for due, ids in by_time.items():
        if len(ids) > 1:
            report.blame(f"an occurrence with two ids: {beat.path} {due} {ids}")
    if not by_time:
        report.lost += 1
        report.blame(f"never fired: {beat.path}")
        return
    due = min(by_time)
    while due < beat.until_ms:
        if due not in by_time:
            report.lost += 1
            report.blame(f"lost occurrence: {beat.path} {due}")
        due += beat.interval_ms
    odd = [t for t in by_time if (t - min(by_time)) % beat.interval_ms]
    if odd:
        report.blame(f"fired off its interval: {beat.path} {odd}")


def judge(asked, beats, calls, faults, states, finals_seen=None, executions=None):
    """asked, beats: what was asked for. calls: the receiver's. faults: Fault. states: id → what it became.
    finals_seen: id → when a client read a final state. executions: id → those of what was called more than once."""
    report = Report(calls=len(calls), faults=dict(collections.Counter(f.kind for f in faults)))
    by_path, by_id = collections.defaultdict(list), collections.defaultdict(list)
    for call in calls:
        by_path[call.path].append(call)
        by_id[call.id].append(call)
    for path in set(by_path) - {a.path for a in asked} - {b.path for b in beats}:
        report.blame(f"nobody asked for this: {path}")
    for one in asked:
        check_asked(report, one, by_path[one.path], states)
    for beat in beats:
        check_beat(report, beat, by_path[beat.path])
    for group in by_id.values():
        check_order(report, group, faults, finals_seen or {})
        if group[0].id in (executions or {}):
            check_accepted(report, group, executions[group[0].id])
    return report
