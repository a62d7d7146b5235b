"""Random workflows, and what has to become of them: made and judged without a look at Belfry's code.

A step's fate is decided by its path alone, so a repeated call gets the same answer. The model evaluates the definition by the two tables of edges
and joins; the receiver's log has to agree with it: who was called, with which body, not before the join allows it, in which order things were
undone; and so has the final state of the run and its result.
"""

import collections
import dataclasses
import json

from oracle import Report, check_order, most_at_once
from server import Receiver, Reply

COMPLETED, FAILED, SKIPPED, BROKEN = "COMPLETED", "FAILED", "SKIPPED", "BROKEN"
MET = {"MUST_SUCCEED": {COMPLETED}, "MUST_NOT_FAIL": {COMPLETED, SKIPPED}, "MUST_FINISH": {COMPLETED, FAILED, SKIPPED, BROKEN}, "MUST_FAIL": {FAILED}}
BREAKS = {"MUST_SUCCEED": {FAILED, BROKEN}, "MUST_NOT_FAIL": {FAILED, BROKEN}, "MUST_FINISH": set(), "MUST_FAIL": set()}
AGAIN = 408  # is tried again, and does not open a circuit breaker
RETRY = {"max_attempts": 3, "base_delay_ms": 50, "backoff": "FIXED", "jitter": "NONE"}


@dataclasses.dataclass
class Step:
    name: str
    kind: str  # call, map, await, noop
    parents: list = dataclasses.field(default_factory=list)  # (Step, type)
    join: str = "ALL"
    fate: str = "ok"  # of a call: ok, fails, flaky (twice AGAIN), exhausted; of an await: ok, rejected, timeout
    items: list = dataclasses.field(default_factory=list)  # of a map: the fate of each
    max_concurrent: int = 0
    max_failures: int = 0
    when: bool = None  # what its condition will say; None: it has none
    may_fail: bool = False
    undo: str = None  # the fate of its compensation; None: it has none
    missing: bool = False  # its body refers to something that does not exist

    outcome: str = None  # by the model
    called: bool = False  # by the model: it has to be

    @property
    def output(self):
        return [self.item_output(i) for i, fate in enumerate(self.items)] if self.kind == "map" else {"of": self.name}

    def item_output(self, index):
        return {"of": self.name, "item": index} if self.items[index] in ("ok", "flaky") else None


def shows_output(step, parent, kind):
    """Of a map that failed, which of its items ended is chance."""
    return parent.kind == "call" or (parent.kind == "map" and kind == "MUST_SUCCEED" and step.join == "ALL")


class Workflow:
    """number: tells its paths from those of others. steps: these, parents first; else random ones."""

    def __init__(self, chance, number, steps=None):
        self.chance, self.number = chance, number
        self.steps = steps or [self._make_step(i) for i in range(chance.randint(3, 12))]
        for i, step in enumerate(self.steps if not steps else ()):
            self._link(step, self.steps[:i])
        self.run_id, self.signalled_ms = None, {}
        self.evaluate()

    # ---- making ----

    def _make_step(self, i):
        chance = self.chance
        kind = chance.choices(("call", "map", "await", "noop"), (6, 2, 1, 1))[0]
        step = Step(f"s{i}", kind, may_fail=chance.random() < 0.2)
        if kind == "call":
            step.fate = chance.choices(("ok", "fails", "flaky", "exhausted"), (8, 1, 2, 1))[0]
            step.missing = chance.random() < 0.03
        if kind == "await":
            step.fate = chance.choices(("ok", "rejected", "timeout"), (4, 1, 1))[0]
        if kind == "map":
            step.items = [chance.choices(("ok", "fails", "flaky"), (10, 1, 1))[0] for _ in range(chance.choice((0, 1, 3, 6)))]
            step.max_concurrent = chance.choice((0, 1, 2))
            step.max_failures = chance.choice((0, 0, 1, 6))
        if chance.random() < 0.2:
            step.when = chance.random() < 0.6
        if kind in ("call", "map") and chance.random() < 0.3:
            step.undo = chance.choices(("ok", "fails", "flaky"), (6, 1, 1))[0]
        return step

    def _link(self, step, earlier):
        count = min(len(earlier), self.chance.choice((0, 1, 1, 2, 2, 3)))
        types = self.chance.choices(tuple(MET), (6, 2, 3, 1), k=count)
        step.parents = list(zip(self.chance.sample(earlier[-5:] if len(earlier) > 5 else earlier, count), types))
        step.join = self.chance.choices(("ALL", "ANY", "SOME"), (4, 2, 1))[0]

    def path(self, step, item=None, undo=False):
        return f"/w{self.number}{'/undo' if undo else ''}/{step.name}" + ("" if item is None else f"/{item}")

    def body_of(self, step):
        """Its name, and of each parent status and output: what a step that starts at once refers to is not final yet, and it refers to nothing."""
        body = {"name": step.name, "input": {"$ref": "/input/n"}}
        if step.join != "ANY":
            body["parents"] = [[{"$ref": f"/steps/{p.name}/status"}, {"$ref": f"/steps/{p.name}/output", "default": None} if shows_output(step, p, t) else None]
                               for p, t in step.parents]
        if step.kind == "map":
            body["item"], body["index"] = {"$ref": "/item"}, {"$ref": "/index"}
        if step.missing:
            body["missing"] = {"$ref": "/input/there/is/none"}
        return body

    def definition_of(self, step, receiver):
        made = {"name": step.name}
        if step.parents:
            made["depends_on"] = [{"step": p.name, "type": t} for p, t in step.parents]
            made["join"] = step.join
        if step.may_fail:
            made["may_fail"] = True
        if step.when is not None:
            made["when"] = {"ref": "/input/n", "op": "eq" if step.when else "ne", "value": self.number}
        if step.kind == "noop":
            made["target_type"] = "NOOP"
        if step.kind == "await":
            made["await"] = {"signal": step.name, "approvals": 1, **({"timeout": "1s", "on_timeout": {"of": step.name}} if step.fate == "timeout" else {})}
        if step.kind in ("call", "map"):
            url = receiver.url(self.path(step))
            made["target_config"] = {"url": {"$join": [url + "/", {"$ref": "/index"}]} if step.kind == "map" else url, "body": self.body_of(step)}
            made["retry"] = RETRY
        if step.kind == "map":
            made["map"] = {"over": {"$ref": f"/input/{step.name}"}, "max_failures": step.max_failures, **({"max_concurrent": step.max_concurrent} if step.max_concurrent else {})}
        if step.undo:
            url = receiver.url(self.path(step, undo=True))
            url = {"$join": [url + "/", {"$ref": "/index"}]} if step.kind == "map" else url
            made["compensate"] = {"target_config": {"url": url, "body": {"$ref": "/output"}}, "retry": RETRY}
        return made

    def request(self, receiver):
        return {
            "definition": {"steps": [self.definition_of(s, receiver) for s in self.steps],
                           "result": {s.name: {"$ref": f"/steps/{s.name}/status"} for s in self.steps}},
            "input": {"n": self.number, **{s.name: [f"{s.name}-{i}" for i in range(len(s.items))] for s in self.steps if s.kind == "map"}},
        }

    # ---- the model ----

    def evaluate(self):
        for step in self.steps:
            step.outcome, step.called = self._decide(step)
        failing = [s for s in self.steps if s.outcome == FAILED and not s.may_fail and not self._is_handled(s)]
        self.status = FAILED if failing else COMPLETED
        self.failed_step = failing[0].name if failing else None

    def _decide(self, step):
        met = [p.outcome in MET[t] for p, t in step.parents]
        broken = [p.outcome in BREAKS[t] for p, t in step.parents]
        starts = not step.parents or (all(met) if step.join == "ALL" else any(met))
        if not starts:
            return (BROKEN if any(broken) else SKIPPED), False
        if step.when is False:
            return SKIPPED, False
        if step.kind == "map":
            return (COMPLETED if step.items.count("fails") <= step.max_failures else FAILED), bool(step.items)
        if step.missing:
            return FAILED, False
        return (FAILED if step.fate in ("fails", "exhausted", "rejected") else COMPLETED), step.kind == "call"

    def _is_handled(self, step):
        return any(p is step and t == "MUST_FAIL" and child.outcome == COMPLETED for child in self.steps for p, t in child.parents)

    def expected_parents(self, step):
        shown = []
        for parent, kind in step.parents:
            has_output = parent.outcome == COMPLETED and shows_output(step, parent, kind)
            shown.append(["SKIPPED" if parent.outcome == BROKEN else parent.outcome, parent.output if has_output else None])
        return shown

    def below(self, step):
        found = [c for c in self.steps if any(p is step for p, _ in c.parents)]
        return found + [d for c in found for d in self.below(c)]


class Fates(Receiver):
    """Answers by path and attempt: /w7/s3, /w7/s3/2 (an item), /w7/undo/s3."""

    def __init__(self):
        super().__init__()
        self.workflows = {}

    def fate_of(self, path):
        words = path.split("/")[1:]
        workflow = self.workflows[words.pop(0)]
        undo = words[0] == "undo"
        step = next(s for s in workflow.steps if s.name == words[undo])
        item = int(words[undo + 1]) if len(words) > undo + 1 else None
        fate = step.undo if undo else step.fate if item is None else step.items[item]
        return fate, {} if undo else step.output if item is None else step.item_output(item)

    def reply_to(self, call):
        fate, output = self.fate_of(call.path)
        status = {"ok": 200, "fails": 400, "exhausted": AGAIN, "flaky": AGAIN if call.attempt < 3 else 200}[fate]
        return Reply(status, body=json.dumps(output).encode(), takes_s=0.03)


# ----------------------------------------------------------------------------------------------------------------------
# the judge


class Judge:
    """Of one run that has ended: what the receiver got, what the run is and its steps are."""

    def __init__(self, workflow, calls, faults, run, steps, report):
        self.w, self.run, self.steps, self.faults, self.report = workflow, run, steps, faults, report
        self.by_path = collections.defaultdict(list)
        mine = f"/w{workflow.number}/"
        for call in calls:
            if call.path.startswith(mine):
                self.by_path[call.path].append(call)
        self.excused_ms = [f.from_ms for f in faults if f.excuses]

    def blame(self, text):
        self.report.blame(f"run {self.run['id']} (w{self.w.number}): {text}")

    def ends_ms(self, step, item=None, undo=False):
        """The earliest moment at which a call's task can have ended; None: it was not answered for good."""
        calls = self.by_path[self.w.path(step, item, undo)]
        ended = [c.answered_ms for c in calls if c.status and (c.status != AGAIN or c.attempt == 3)]
        return min(ended, default=None)

    def judge(self):
        self.check_state()
        self.check_paths()
        self.final_ms = {}
        for step in self.w.steps:
            self.check_step(step)
        if self.w.status == FAILED:
            self.check_undo()
        by_id = collections.defaultdict(list)
        for calls in self.by_path.values():
            for call in calls:
                by_id[call.id].append(call)
        for group in by_id.values():
            check_order(self.report, group, self.faults, {})

    def check_state(self):
        if self.run["status"] != self.w.status or (self.w.failed_step or None) != self.run["failed_step"]:
            self.blame(f"is {self.run['status']} by {self.run['failed_step']} ({self.run['last_error']}), not {self.w.status} by {self.w.failed_step}")
        wanted = {s.name: SKIPPED if s.outcome == BROKEN else s.outcome for s in self.w.steps}
        if {name: s["status"] for (name, item, kind), s in self.steps.items() if kind == "STEP"} != wanted:
            self.blame(f"its steps are {({n: s['status'] for (n, _, k), s in self.steps.items() if k == 'STEP'})}, not {wanted}")
        if self.w.status == COMPLETED and self.run["result"] != wanted:
            self.blame(f"its result is {self.run['result']}")

    def check_paths(self):
        """Nobody is called who must not be."""
        allowed = set()
        for s in self.w.steps:
            items = [None] if s.kind != "map" else range(len(s.items))
            allowed |= {self.w.path(s, i) for i in items if s.called}
            allowed |= {self.w.path(s, i, True) for i in items if s.undo and self.w.status == FAILED and s.called and (i is not None or s.outcome == COMPLETED)}
        for path in set(self.by_path) - allowed:
            self.blame(f"{path} must not be called")

    def released_ms(self, step):
        """The earliest moment at which its join can be decided."""
        if not step.parents:
            return 0
        of = [self.final_ms[p.name] for p, _ in step.parents]
        met = [self.final_ms[p.name] for p, t in step.parents if p.outcome in MET[t]]
        broken = [self.final_ms[p.name] for p, t in step.parents if p.outcome in BREAKS[t]]
        if step.join == "ANY" and met:
            return min(met)
        return min(broken) if step.join == "ALL" and broken else max(of)

    def check_step(self, step):
        released = self.released_ms(step)
        self.final_ms[step.name] = released
        items = [None] if step.kind == "call" else range(len(step.items))
        calls = [c for i in items for c in self.by_path[self.w.path(step, i)]]
        for call in calls:
            if call.received_ms < released:
                self.blame(f"ORDER: {call.path} came {released - call.received_ms:.1f} ms too early")
            self.check_body(step, call)
        if step.called:
            self.final_ms[step.name] = max(released, self.check_called(step, items))
        if step.kind == "await" and step.fate != "timeout" and step.outcome in (COMPLETED, FAILED):
            self.final_ms[step.name] = max(released, self.w.signalled_ms.get(step.name, 0))
        if step.max_concurrent and most_at_once(calls, self.excused_ms, True) > step.max_concurrent:
            self.blame(f"MAP: {step.name} ran more than {step.max_concurrent} at once")

    def check_called(self, step, items):
        """Returns the earliest moment at which the step can have ended."""
        ends = [self.ends_ms(step, i) for i in items]
        ended = sorted(ms for ms in ends if ms is not None)
        if step.kind == "map" and step.outcome == FAILED:
            failed = sorted(ms for ms, fate in zip(ends, step.items) if ms is not None and fate == "fails")
            if len(failed) <= step.max_failures:
                self.blame(f"{step.name} failed, though {len(failed)} of its items did")
            return failed[step.max_failures] if len(failed) > step.max_failures else 0
        if len(ended) < len(ends):
            self.blame(f"LOST: {step.name} was not called to its end: {ends}")
        return max(ended, default=0)

    def check_body(self, step, call):
        body = json.loads(call.body)
        item = int(call.path.rsplit("/", 1)[1]) if step.kind == "map" else None
        wanted = {"name": step.name, "input": self.w.number}
        if step.join != "ANY":
            wanted["parents"] = self.w.expected_parents(step)
        if item is not None:
            wanted |= {"item": f"{step.name}-{item}", "index": item}
        if body != wanted:
            self.blame(f"DATA: {call.path} got {body}, not {wanted}")

    # ---- undoing ----

    def undone(self, step):
        items = [None] if step.kind == "call" else range(len(step.items))
        return [c for i in items for c in self.by_path[self.w.path(step, i, True)]]

    def check_undo(self):
        for step in self.w.steps:
            calls = self.undone(step)
            self.check_undone(step, calls)
            first = min((c.received_ms for c in calls), default=None)
            for below in self.w.below(step):
                items = [None] if below.kind == "call" else range(len(below.items))
                last = max((self.ends_ms(below, i, True) or 0 for i in items if self.by_path[self.w.path(below, i, True)]), default=0)
                if first is not None and first < last:
                    self.blame(f"UNDO: {step.name} was undone before {below.name}, which is below it")
        wanted = [s for s in self.w.steps if s.undo and s.outcome == COMPLETED and (s.kind == "call" or any(s.item_output(i) for i in range(len(s.items))))]
        complete = "COMPLETE" if all(s.undo != "fails" for s in wanted) else "INCOMPLETE"
        partial = any(s.undo and s.kind == "map" and s.outcome == FAILED for s in self.w.steps)  # which of its items ended is chance
        if not partial and self.run["compensation"] != (complete if wanted else None):
            self.blame(f"UNDO: it is {self.run['compensation']}")

    def check_undone(self, step, calls):
        if not step.undo or not step.called:
            return
        for i in [None] if step.kind == "call" else range(len(step.items)):
            path = self.w.path(step, i, True)
            done = step.outcome == COMPLETED if i is None else step.item_output(i) is not None
            if not done and self.by_path[path]:
                self.blame(f"UNDO: {path} of what did not complete")
            if done and step.outcome == COMPLETED and self.ends_ms(step, i, True) is None:
                self.blame(f"UNDO: {path} did not come")
        for call in calls:
            item = int(call.path.rsplit("/", 1)[1]) if step.kind == "map" else None
            if json.loads(call.body) != (step.output if item is None else step.item_output(item)):
                self.blame(f"UNDO: {call.path} got {call.body}")


def judge(workflows, calls, faults, runs, steps):
    """runs, steps: what the API says, by id."""
    report = Report(tasks=len(workflows), calls=len(calls), faults=dict(collections.Counter(f.kind for f in faults)))
    for w in workflows:
        report.acknowledged += 1
        Judge(w, calls, faults, runs[w.run_id], steps[w.run_id], report).judge()
    return report
