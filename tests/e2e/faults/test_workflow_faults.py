"""Random workflows under faults, with the receiver as oracle (workflow_model.py): joins of all kinds, conditions, maps, awaits, retries,
compensation and pauses, on one node, on a cluster and on fleets.

After the last fault every run ends without help as the model says: nobody was called too early, too often or in vain, bodies and results have the
right data, and what was done is undone in order. BELFRY_TEST_SEED=N makes the same workflows again.
"""

import dataclasses
import http.client
import itertools
import os
import random
import threading
import time

import pytest

from chaos import Chaos
from cluster import LONG
from fleet_chaos import FleetChaos, Siege
from openapi import FirstAnswers
from oracle import Fault
from server import Reply, now_ms, until
from test_cluster_faults import new_seed
from workflow_model import Fates, Step, Workflow, judge

ENDS_S = 120
NUMBERS = itertools.count()


class WorkflowLoad:
    """Clients that start runs, send their signals and pause some, each request until somebody acknowledges it."""

    def __init__(self, server, receiver, seed, pause_s=0.05, patience_s=2):
        self.server, self.receiver, self.seed = server, receiver, seed
        self.pause_s, self.patience_s = pause_s, patience_s
        self.workflows, self.faults, self.trouble = [], [], []
        self.ending = threading.Event()
        self.first_answers = FirstAnswers()
        self.threads = [threading.Thread(target=self._guard, args=(i,), daemon=True) for i in range(2)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def fault(self, kind, excuses=True, holds=False):
        self.faults.append(Fault(kind, now_ms(), excuses=excuses, holds=holds))
        return self.faults[-1]

    def _guard(self, index):
        try:
            self._work(index)
        except Exception as e:  # pylint: disable=broad-except
            self.trouble.append(repr(e))
            raise

    def _ask(self, client, path, body, expect, key=None):
        while True:
            try:
                answer = client.post(path, body, key=key, timeout_s=self.patience_s)
                # The same request, which we gave up before it was answered: it may yet fail.
                in_flight = answer.status == 409 and b"request-in-flight" in answer.body
                if answer.status in expect and not in_flight:
                    return answer
                assert in_flight or answer.status == 503, f"{path}: {answer}"
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.01)

    def _work(self, index):
        chance = random.Random(self.seed * 2 + index)
        client = self.server.client(self.first_answers.check)
        while not self.ending.is_set():
            w = Workflow(chance, next(NUMBERS))
            self.receiver.workflows[f"w{w.number}"] = w
            w.run_id = self._ask(client, "/v1/workflows", w.request(self.receiver), (201,), key=f"w{w.number}-{self.seed}").json["id"]
            self.workflows.append(w)
            url = f"/v1/workflows/{w.run_id}"
            if chance.random() < 0.2:
                # With keys: a request that was given up, and is carried out later, does not undo the next one.
                self._ask(client, f"{url}/pause", None, (200, 202, 409), key=f"pause-{w.run_id}")
                self._ask(client, f"{url}/resume", None, (200, 202, 409), key=f"resume-{w.run_id}")
            for step in w.steps:
                if step.kind == "await" and step.fate != "timeout":
                    w.signalled_ms[step.name] = now_ms()
                    decision = "REJECT" if step.fate == "rejected" else "APPROVE"
                    self._ask(client, f"{url}/signals/{step.name}", {"by": "ann", "decision": decision}, (200, 409))
            self.ending.wait(chance.uniform(0, 2 * self.pause_s))
        client.close()

    def finish(self):
        """Everything ends by itself, and is judged."""
        self.ending.set()
        for thread in self.threads:
            if thread.ident:
                thread.join(60)
            assert not thread.is_alive(), "a client hangs"
        assert not self.trouble, self.trouble
        client = self.server.client()
        runs, steps = {}, {}
        for w in self.workflows:
            runs[w.run_id] = until(lambda w=w: self._ended(client, w.run_id), ENDS_S, why=lambda w=w: f"w{w.number} does not end: {self._shown(client, w)}")
            steps[w.run_id] = {(s["step"], s["item"], s["kind"]): s for s in self._steps(client, w.run_id)}
        client.close()
        poisoned = {run for run, found in steps.items() if any((s["last_error"] or "").startswith("poison: ") for s in found.values())}
        judged = [w for w in self.workflows if w.run_id not in poisoned]
        report = judge(judged, list(self.receiver.calls), self.faults, runs, steps)
        return report, len(poisoned)

    @staticmethod
    def _ended(client, run_id):
        answer = client.get(f"/v1/workflows/{run_id}?wait_seconds=5", timeout_s=30)
        return answer.status == 200 and answer.json["completed_at"] and answer.json

    @staticmethod
    def _page(client, run_id, query="limit=1000"):
        """Asked again while the store is not back."""
        answer = until(lambda: (a := client.get(f"/v1/workflows/{run_id}/steps?{query}")).status != 503 and a, ENDS_S, why="no node can read the steps")
        assert answer.status == 200, answer
        return answer.json

    @staticmethod
    def _steps(client, run_id):
        return WorkflowLoad._page(client, run_id)["steps"]

    @staticmethod
    def _all_steps(client, run_id):
        steps, query = [], "limit=1000"
        while query:
            page = WorkflowLoad._page(client, run_id, query)
            steps += page["steps"]
            query = page.get("next_cursor") and f"limit=1000&cursor={page['next_cursor']}"
        return steps

    def _shown(self, client, w):
        open_steps = [s for s in self._steps(client, w.run_id) if s["status"] not in ("COMPLETED", "FAILED", "SKIPPED", "CANCELLED")]
        return f"{client.get(f'/v1/workflows/{w.run_id}').json}\nopen: {open_steps}\n{w.request(self.receiver)}\n{self.server.log()[-3000:]}"


@pytest.fixture
def fates():
    receiver = Fates()
    yield receiver
    receiver.close()


def conclude(load, counts, what, kinds):
    report, poisoned = load.finish()
    counts(f"{what}, seed {load.seed}: {report}" + (f"; {poisoned} runs with a step that was blamed for the kills" if poisoned else ""))
    assert not report.wrong, "\n".join([f"seed {load.seed}: {report}", *report.wrong[:20], load.server.log()[-3000:]])
    assert report.acknowledged > kinds
    return report


def planted(workflow, calls, run, steps):
    """What was right, each time with one bug: (name, calls, run, steps)."""
    to = lambda path: next(c for c in calls if c.path == path)
    with_call = lambda **more: [*calls, dataclasses.replace(calls[0], **more)]
    path = workflow.path
    step = {s.name: s for s in workflow.steps}
    without = lambda gone: [c for c in calls if c.path != gone]
    changed = lambda of, **more: [dataclasses.replace(c, **more) if c.path == of else c for c in calls]
    yield "must not be called", with_call(path=path(step["never"]), headers={**calls[0].headers, "webhook-id": "x"}), run, steps
    yield "ORDER", changed(path(step["b"]), received_ms=to(path(step["a"])).answered_ms - 5), run, steps
    yield "LOST", without(path(step["b"])), run, steps
    yield "LOST", without(path(step["map"], 1)), run, steps
    yield "DATA", changed(path(step["b"]), body=to(path(step["b"])).body.replace(b"COMPLETED", b"FAILED")), run, steps
    yield "MAP", [dataclasses.replace(c, received_ms=to(path(step["map"], 0)).received_ms, answered_ms=to(path(step["map"], 0)).answered_ms)
                  if c.path.startswith(path(step["map"])) else c for c in calls], run, steps
    yield "UNDO", without(path(step["a"], undo=True)), run, steps
    yield "UNDO", changed(path(step["a"], undo=True), received_ms=to(path(step["b"], undo=True)).received_ms - 1), run, steps
    yield "repeated without a fault", with_call(headers={**calls[0].headers, "belfry-fence": str(calls[0].fence + 1)}, received_ms=calls[0].received_ms + 9999), run, steps
    yield "not FAILED by bad", calls, {**run, "status": "COMPLETED"}, steps
    yield "its steps are", calls, run, {key: {**s, "status": "SKIPPED"} if key[0] == "bad" else s for key, s in steps.items()}


@pytest.mark.standalone("it is about the judge")
def test_the_judge_finds_what_is_planted(client, fates):
    a = Step("a", "call", undo="ok")
    b = Step("b", "call", [(a, "MUST_SUCCEED")], fate="flaky", undo="ok")
    many = Step("map", "map", [(a, "MUST_SUCCEED")], items=["ok", "ok", "ok"], max_concurrent=1)
    bad = Step("bad", "call", [(b, "MUST_SUCCEED"), (many, "MUST_FINISH")], fate="fails")
    never = Step("never", "call", [(bad, "MUST_SUCCEED")])
    workflow = Workflow(random.Random(1), next(NUMBERS), [a, b, many, bad, never])
    load = WorkflowLoad(client.server, fates, 0)
    fates.workflows[f"w{workflow.number}"] = workflow
    workflow.run_id = client.post("/v1/workflows", workflow.request(fates)).json["id"]
    load.workflows = [workflow]
    report, _ = load.finish()
    assert not report.wrong, report.wrong
    run = load._ended(client, workflow.run_id)
    steps = {(s["step"], s["item"], s["kind"]): s for s in load._steps(client, workflow.run_id)}
    for bug, calls, is_run, are_steps in planted(workflow, list(fates.calls), run, steps):
        wrong = judge([workflow], calls, [], {workflow.run_id: is_run}, {workflow.run_id: are_steps}).wrong
        assert any(bug in text for text in wrong), f"{bug} was not found: {wrong}"


def post_to_the_dying(server, path):
    """Its answer may be lost."""
    client = server.client()
    try:
        return client.post(path).status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        client.close()


@pytest.mark.standalone("it counts the commits of one node")
@pytest.mark.parametrize("commit", range(1, 13) if LONG else (4, 5))
def test_a_retry_of_thousands_of_tasks_goes_on_where_its_node_died(make_server, receiver, commit):
    """The items of a map and the steps of a run are opened again page by page: all of them run, whichever page was the last."""
    items, width = 600, 600
    receiver.answer("/fails", Reply(status=400))
    url = {"url": receiver.url("/fails")}
    server = make_server()
    client = server.client()
    made = client.post("/v1/workflows", {"input": list(range(items)), "definition": {"steps": [
        {"name": "map", "map": {"over": {"$ref": "/input"}, "max_concurrent": 4}, "target_config": {**url, "body": {"$ref": "/item"}}},
        {"name": "bad", "target_config": url}, *({"name": f"n{i}", "depends_on": ["bad"], "target_type": "NOOP"} for i in range(width))]}}).json["id"]
    assert until(lambda: WorkflowLoad._ended(client, made))["status"] == "FAILED"
    client.close()
    server.kill()
    receiver.answer("/fails", Reply())
    server.start(env={"BELFRY_FAILPOINT": f"before_commit:kill:{commit}"})
    acknowledged = post_to_the_dying(server, f"/v1/workflows/{made}/retry")
    server.ended()
    server.start()
    client = server.client()
    if acknowledged != 200:
        until(lambda: client.post(f"/v1/workflows/{made}/retry").status in (200, 409))
    done = until(lambda: WorkflowLoad._ended(client, made), ENDS_S)
    assert done["status"] == "COMPLETED", done
    assert done["steps"]["by_status"] == {"COMPLETED": width + 2}, done
    assert {int(c.body) for c in receiver.calls if c.status == 200 and c.body.isdigit()} == set(range(items))


@pytest.mark.standalone("it counts the commits of one node")
@pytest.mark.parametrize("commit", range(1, 16) if LONG else (11, 13))
def test_a_compensation_of_hundreds_of_items_goes_on_where_its_node_died(make_server, receiver, commit):
    """Compensations are opened page by page: each of them is there at the end, whichever page was the last."""
    items = 600
    receiver.answer("/fails", Reply(status=400))
    server = make_server()
    client = server.client()
    made = client.post("/v1/workflows", {"definition": {"steps": [
        {"name": "map", "map": {"over": list(range(items))}, "target_type": "NOOP", "compensate": {"target_type": "NOOP"}},
        {"name": "gate", "depends_on": ["map"], "await": {"signal": "go"}},
        {"name": "bad", "depends_on": ["gate"], "target_config": {"url": receiver.url("/fails")}}]}}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{made}/status").json["by_status"].get("COMPLETED") == 1, ENDS_S)
    client.close()
    server.kill()
    server.start(env={"BELFRY_FAILPOINT": f"before_commit:kill:{commit}"})
    post_to_the_dying(server, f"/v1/workflows/{made}/signals/go")
    server.ended()
    server.start()
    client = server.client()
    until(lambda: client.post(f"/v1/workflows/{made}/signals/go").status in (200, 409))
    done = until(lambda: WorkflowLoad._ended(client, made), ENDS_S, why=lambda: client.get(f"/v1/workflows/{made}").json)
    assert done["status"] == "FAILED" and done["compensation"] == "COMPLETE", done
    undone = [s["item"] for s in WorkflowLoad._all_steps(client, made) if s["kind"] == "COMPENSATION" and s["status"] == "COMPLETED"]
    assert sorted(undone) == list(range(items))


@pytest.mark.standalone("nodes of a cluster fail in the next test")
@pytest.mark.parametrize("part", range(20 if LONG else 1))
def test_workflows_survive_kills_of_their_node(make_server, fates, counts, part):
    seed = new_seed()
    chance = random.Random(seed)
    kills = 20 if LONG else 5
    server = make_server()
    load = WorkflowLoad(server, fates, seed).start()
    for _ in range(kills):
        load.ending.wait(chance.uniform(0.1, 0.8))
        load.fault("kill")
        server.kill()
        server.start()
    conclude(load, counts, f"workflows, part {part}", kills)
    server.stop()

KILLS = ("kill", "SIGSTOP past the lease", "answer to a commit lost", "PostgreSQL restarted (immediate)", "reset")


class KillChaos(Chaos):
    def plan(self, count):
        if LONG:
            return super().plan(count)
        return [[name] for name in self.chance.sample(KILLS, count)]


@pytest.mark.parametrize("part", range(10 if LONG else 1))
def test_workflows_survive_faults_of_a_cluster(make_cluster, postgres, database, wires, clocks, fates, counts, part):
    seed = new_seed()
    faults = 40 if LONG else 4
    ways = [[wires.new(postgres.port)] for _ in range(3)]
    cluster = make_cluster([postgres.url(database, *(wire.port for wire in way)) for way in ways], env=[c.env for c in clocks], beat_s=0.5 if LONG else 0.2)
    load = WorkflowLoad(cluster, fates, seed).start()
    KillChaos(cluster, postgres, database, ways, clocks, load, random.Random(seed)).run(faults)
    conclude(load, counts, f"workflows on a cluster, part {part}", faults)
    cluster.stop()


@pytest.mark.skipif(not LONG, reason="fleets take long: in ./test long")
@pytest.mark.parametrize("part", range(4))
def test_workflows_survive_faults_of_a_fleet(fleet, request, postgres, database, wires, build, tmp_path, fates, counts, part):
    seed = new_seed()
    queue = request.getfixturevalue("rabbitmq_server" if fleet == "fleet-amqp" else "redis_server")
    events = queue if fleet == "fleet-amqp" else request.getfixturevalue("kafka_server")
    siege = Siege(fleet, tmp_path / "fleet", postgres, database, queue, events, wires, f"w{os.getpid()}n{next(NUMBERS)}", 0.5)
    try:
        load = WorkflowLoad(siege.fleet.start(), fates, seed, pause_s=0.1).start()
        FleetChaos(siege, load, random.Random(seed)).run(20)
        conclude(load, counts, f"workflows on {fleet}, part {part}", 20)
        siege.fleet.stop()
    finally:
        siege.fleet.close()
        siege.heal()
