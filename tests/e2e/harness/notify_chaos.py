"""Nodes that die at the steps of a notification, come back and die at the next one, while tasks fail; and a judge of what was told of it.

Each task calls a host of its own, which refuses it, so each failure is an incident of its own: whoever knows the tasks knows what has to be
told. The hosts answer, or the tenant's breaker would hold the tasks."""

import collections
import http.client
import itertools
import json
import signal

from server import TIMEOUT_S, Receiver, Reply, until

FAILPOINTS = ("before_fold", "after_fold", "before_send", "after_send")
PASSES = 3  # a node dies when it comes to its failpoint for the first to the third time
BURST = 3  # tasks that fail at once
UNDER_WAY = 4  # messages to one place that a node may have under way (docs/NOTIFICATIONS.md)
SETTING = {"name": "ops", "on_failure": True, "group_wait": "0s", "group_window": "1s", "max_per_hour": 3600, "delivery_type": "HTTP_WEBHOOK"}
PLANS = [(point, passes) for passes in range(1, PASSES + 1) for point in FAILPOINTS]


class NodeKills:
    """Nodes of a server, a cluster or a fleet that are killed at failpoints, until there were so many kills as are wanted."""

    def __init__(self, system, wanted, plans=PLANS):
        self.system, self.wanted = system, wanted
        self.plans = itertools.cycle(plans)
        self.armed = {}  # by the index of the node
        self.done = collections.Counter()

    @property
    def count(self):
        return self.done.total()

    def arm_all(self):
        for i, node in enumerate(self.system.nodes):
            node.stop()
            self.arm(i, node)

    def arm(self, i, node):
        point, passes = next(self.plans)
        self.armed[i] = point if self.count < self.wanted else None
        node.launch(env={"BELFRY_FAILPOINT": f"{point}:kill:{passes}" if self.armed[i] else ""})
        node.heard.wait(TIMEOUT_S)  # it listens, or it has died already

    def revive(self):
        """Counts the nodes that have died, and starts them again."""
        for i, node in enumerate(self.system.nodes):
            if not node.runs():
                assert node.ended() == -signal.SIGKILL, node.log()
                self.done[self.armed[i]] += 1
                self.arm(i, node)

    def end(self):
        """Those that still have a failpoint are killed wherever they are, and run without one from then on."""
        for i, node in enumerate(self.system.nodes):
            if self.armed[i] and node.runs():
                self.armed[i] = "the end"
                node.process.kill()
                node.process.wait()
        self.revive()
        for node in self.system.nodes:
            node.listening()


class Hosts(Receiver):
    """All addresses of this machine, on one port."""

    def __init__(self):
        super().__init__("0.0.0.0")

    def reply_to(self, call):
        return Reply(400)


class Failures:
    """Tasks that fail, each for a reason of its own, and what the receiver was told of them."""

    def __init__(self, client, receiver, kills):
        self.client, self.receiver, self.kills = client, receiver, kills
        self.hosts, self.tasks = Hosts(), []

    def close(self):
        self.hosts.close()

    def add(self):
        """Asks until it is answered: a key makes one task, whoever dies."""
        n = len(self.tasks)
        body = {"delay": "0s", "retry": {"max_attempts": 1}, "target_type": "HTTP_CALLBACK",
                "target_config": {"url": f"http://127.{1 + n // 200}.{1 + n % 200}.1:{self.hosts.port}/"}}

        def ask():
            try:
                answer = self.client.post("/v1/tasks", body, key=f"failure {n}", timeout_s=10)
            except (OSError, http.client.HTTPException):
                answer = None
            if answer is None or answer.status != 201:
                self.kills.revive()
                return None
            return answer.json["id"]

        self.tasks.append(until(ask, 10 * TIMEOUT_S, why="no node answers"))  # one that starts may die at once, over and over

    def messages(self):
        """Of each call that told of an incident: its id, the incident, and the tasks."""
        bodies = [(call.headers["webhook-id"], json.loads(call.body)) for call in self.receiver.to("/told")]
        return [(m, body["data"]["incident"], [t["id"] for t in body["data"]["tasks"]]) for m, body in bodies if body["type"] == "incident.opened"]

    def are_told(self):
        return set(self.tasks) <= {task for _, _, tasks in self.messages() for task in tasks}

    def burst(self):
        """Some failures. Returns when a node has died, or all is told and nobody has to."""
        for _ in range(BURST):
            self.add()
        until(lambda: self.are_told() or any(not node.runs() for node in self.kills.system.nodes), why="neither told nor killed")
        self.kills.revive()


def judge(tasks, messages, kills):
    """Returns what is wrong, and how many messages were repeated."""
    ids, incidents = collections.defaultdict(set), collections.defaultdict(set)
    for message, incident, told in messages:
        ids[incident].add(message)
        for task in told:
            incidents[task].add(incident)
    repeats = len(messages) - len({message for message, _, _ in messages})
    wrong = [f"task {t} is untold" for t in tasks if t not in incidents]
    wrong += [f"nobody asked for task {t}" for t in incidents if t not in tasks]
    wrong += [f"task {t} is in incidents {found}" for t, found in incidents.items() if len(found) > 1]
    wrong += [f"incident {i} was told under ids {found}" for i, found in ids.items() if len(found) > 1]
    if repeats > UNDER_WAY * kills:
        wrong.append(f"{repeats} repeats of {kills} kills")
    return wrong, repeats
