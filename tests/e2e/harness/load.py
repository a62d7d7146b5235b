"""Load for the fault tests: clients that go on asking through every fault, each request with an Idempotency-Key that is
repeated until somebody acknowledges it, and a record of what they were told."""

import collections
import http.client
import itertools
import random
import threading
import time

from openapi import FirstAnswers
from oracle import FINAL, Asked, Beat, Fault, judge
from server import TIMEOUT_S, at, now_ms, to_ms, until

RETRY_S = 0.01


class Load:
    """creators threads ask for one-time tasks due soon; beats recurring tasks fire each second. patience_s: how long a client waits for
    an answer before it asks again, of a cluster the next node."""

    def __init__(self, server, receiver, seed, creators=2, beats=2, due_ms=(0, 400), pause_s=0.004, patience_s=5):
        self.server, self.receiver = server, receiver
        self.patience_s = patience_s
        self.random = random.Random(seed)
        self.due_ms, self.pause_s = due_ms, pause_s
        self.asked, self.beats, self.faults, self.finals_seen = [], [], [], {}
        self.numbers = itertools.count()
        self.ending = threading.Event()
        self.trouble = []
        self.first_answers = FirstAnswers()
        self.threads = [threading.Thread(target=self._guard, args=(self._create,), daemon=True) for _ in range(creators)]
        self.threads += [threading.Thread(target=self._guard, args=(f,), daemon=True) for f in (self._watch, self._cancel)]
        self.beats_wanted = beats

    def start(self):
        client = self.server.client(self.first_answers.check)
        for i in range(self.beats_wanted):
            task = client.create(name=f"beat {i}", interval_seconds=1, catch_up_mode="RUN_ALL_MISSED", overlap_policy="ALLOW",
                                 **self.receiver.target(f"/beat/{i}"))
            self.beats.append(Beat(f"/beat/{i}", task["id"], 1000, 0))
        client.close()
        for thread in self.threads:
            thread.start()
        return self

    def fault(self, kind, excuses=True, holds=False):
        """It happens now; of one that lasts, to_ms is set when it is over."""
        self.faults.append(Fault(kind, now_ms(), excuses=excuses, holds=holds))
        return self.faults[-1]

    def _guard(self, body):
        try:
            body()
        except Exception as e:  # pylint: disable=broad-except
            self.trouble.append(repr(e))
            raise

    def _ask(self, client, asked, body):
        """Until it is acknowledged. No answer, or 503: whether it happened is not known, so the same again."""
        while True:
            try:
                answer = client.post("/v1/tasks", body, key=f"key-{asked.path}", timeout_s=self.patience_s)
            except (OSError, http.client.HTTPException):
                answer = None
            if answer and answer.status == 201:
                asked.id = answer.json["id"]
                return
            if answer and answer.status not in (409, 503):
                raise AssertionError(f"{asked.path}: {answer}")
            time.sleep(RETRY_S)

    def _create(self):
        client = self.server.client(self.first_answers.check)
        while not self.ending.is_set():
            asked = Asked(f"/one/{next(self.numbers)}", now_ms() + self.random.uniform(*self.due_ms))
            self.asked.append(asked)
            asked.due_ms = int(asked.due_ms)
            self._ask(client, asked, {"name": asked.path, "run_at": at(asked.due_ms), "priority": self.random.choice((2, 5, 8)),
                                      **self.receiver.target(asked.path)})
            self.ending.wait(self.pause_s)
        client.close()

    def _cancel(self):
        """Asks for tasks and cancels them before their time; the cancel too is repeated until somebody answers."""
        client = self.server.client(self.first_answers.check)
        chance = random.Random(self.random.random())
        while not self.ending.is_set():
            asked = Asked(f"/stop/{next(self.numbers)}", int(now_ms() + chance.uniform(100, 1500)))
            self.asked.append(asked)
            self._ask(client, asked, {"name": asked.path, "run_at": at(asked.due_ms), **self.receiver.target(asked.path)})
            self.ending.wait(chance.uniform(0, 0.2))
            while asked.stopped_ms is None:
                try:
                    answer = client.post(f"/v1/tasks/{asked.id}/cancel", key=f"cancel-{asked.path}", timeout_s=self.patience_s)
                except (OSError, http.client.HTTPException):
                    time.sleep(RETRY_S)
                    continue
                if answer.status == 200:
                    asked.stopped_ms = now_ms()
                elif answer.status == 409 and "COMPLETED" in answer.json["detail"]:
                    break  # it was faster
                elif answer.status not in (409, 503):
                    raise AssertionError(f"{asked.path}: {answer}")
                time.sleep(RETRY_S)
        client.close()

    def _watch(self):
        """Reads which tasks are final: those must not run any more."""
        client = self.server.client(self.first_answers.check)
        while not self.ending.wait(0.05):
            try:
                answer = client.get("/v1/tasks?status=COMPLETED&limit=100", timeout_s=self.patience_s)
            except (OSError, http.client.HTTPException):
                continue
            if answer.status == 200:
                for task in answer.json["tasks"]:
                    self.finals_seen.setdefault(task["id"], now_ms())
        client.close()

    def finish(self):
        """The faults are over: the clients end, everything drains, and the judge speaks."""
        self.ending.set()
        for thread in self.threads:
            thread.join(TIMEOUT_S)
        assert not self.trouble and not any(t.is_alive() for t in self.threads), self.trouble
        client = self.server.client(self.first_answers.check)
        for node in self.server.nodes:
            until(lambda: self._is_ready(client, node), why=lambda: f"it does not come back:\n{node.log()[-3000:]}")
        states = self._drain(client)
        client.close()
        calls = list(self.receiver.calls)
        return judge(self.asked, self.beats, calls, self.faults, states, self.finals_seen, self._executions(calls))

    def _executions(self, calls):
        """What was recorded of tasks that were called more than once."""
        asked = {a.id for a in self.asked}
        often = [i for i, n in collections.Counter(c.id for c in calls).items() if n > 1 and i in asked]
        client = self.server.client(self.first_answers.check)
        found = {i: self._patiently(lambda i=i: client.all(f"/v1/tasks/{i}/executions", "executions")) for i in often}
        client.close()
        return found

    @staticmethod
    def _is_ready(client, node):
        try:
            return client.get("/v1/tasks?limit=1", node=node, timeout_s=5).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def _drain(self, client):
        states = {}
        wanted = {a.id for a in self.asked if a.id}

        def all_final():
            states.update((t["id"], t["status"]) for t in self._patiently(lambda: client.all("/v1/tasks?type=ONE_TIME")))
            return all(states.get(i) in FINAL for i in wanted)

        until(all_final, why=lambda: f"not all drained: {[(i, states.get(i)) for i in wanted if states.get(i) not in FINAL][:20]}\n{self.server.log()[-3000:]}")
        for beat in self.beats:
            self._patiently(lambda beat=beat: client.act(beat.id, "pause"))
            self._settle_beat(client, beat)
        return states

    @staticmethod
    def _patiently(ask):
        """The faults are over, but a connection that could not be had is tried again only after a while, two seconds at most, and one whose
        commit was never answered leaves open what became of it: then 503 says to ask again."""

        def once():
            try:
                return [ask()]
            except AssertionError as e:
                if not str(e).startswith("503"):
                    raise
                return None

        return until(once, 10, why="503 goes on")[0]

    def _settle_beat(self, client, beat):
        """What fired has ended, and all up to the last of that has to be there."""
        self._patiently(lambda: client.wait_for(beat.id, "PAUSED"))

        page = []

        def quiet():
            nonlocal page
            page = self._patiently(lambda: client.all(f"/v1/tasks/{beat.id}/occurrences"))
            done = [t for t in page if t["status"] == "COMPLETED"]
            beat.until_ms = max([to_ms(t["scheduled_for"]) for t in done] or [0]) + 1
            return done and len(done) == len(page)

        until(quiet, why=lambda: f"occurrences of {beat.path} are not all over: {page}")
