"""Several nodes on one PostgreSQL database. To a test it looks like one server, whose requests go to the nodes in turn: what one
node was told is asked of the next."""

import itertools
import os
import signal

import openapi
from server import Client, Server, spare_sanitizers, until

NODES = 3
LONG = bool(os.environ.get("BELFRY_TEST_LONG"))
BEAT_S = 0.5 if LONG else 0.2  # by default; shorter, so that nobody waits long for a death


class Cluster:
    """urls: for each node its own way to the database; one: the same for all. env may be one for each node, too."""

    def __init__(self, folder, urls, *arguments, env=None, nodes=NODES, beat_s=BEAT_S):
        self.folder = folder
        self.beat_s = beat_s
        self.dead_s = 5 * beat_s  # a node that did not beat for so long is buried
        urls = [urls] * nodes if isinstance(urls, str) else urls
        envs = env if isinstance(env, list) else [env] * nodes
        beat = {"BELFRY_CLUSTER_BEAT": f"{beat_s * 1000:.0f}ms"}
        self.nodes = spare_sanitizers([Server(folder / f"node{i}", "--store", url, *arguments, env={**beat, **(envs[i] or {})})
                                       for i, url in enumerate(urls)])
        self.processes = self.nodes
        self.turns = itertools.count()

    # ---- as a server ----

    def start(self, env=None):
        """Returns once all listen. The first start of all is the first node's, which makes the admin key."""
        first, *others = self.nodes
        if not (first.data_dir / "admin.key").exists():
            first.start(env)
        for node in self.nodes:
            if not node.runs():
                node.launch(env)
        for node in self.nodes:
            node.listening()
        return self

    def stop(self):
        stopping = self.running()
        for node in stopping:
            node.signal(signal.SIGTERM)
        for node in stopping:
            code = node.ended()
            assert code == 0, f"exit status {code}:\n{node.log()}"

    def kill(self):
        killed = self.running()
        for node in killed:
            node.process.kill()
        for node in killed:
            assert node.ended() == -signal.SIGKILL, node.log()

    def signal(self, number):
        for node in self.running():
            node.signal(number)

    def close(self):
        for node in self.nodes:
            node.close()

    def client(self, check=openapi.check):
        return Client(self, check)

    def running(self):
        return [node for node in self.nodes if node.runs()]

    def turn(self):
        running = self.running() or self.nodes
        return running[next(self.turns) % len(running)]

    @property
    def key(self):
        return self.nodes[0].key

    @property
    def data_dir(self):
        """Of the node that made the admin key."""
        return self.nodes[0].data_dir

    @property
    def port(self):
        return self.turn().port

    @property
    def url(self):
        return self.turn().url

    @property
    def lines(self):
        return [f"node {i}: {line}" for i, node in enumerate(self.nodes) for line in list(node.lines)]

    def log(self):
        return "\n".join(self.lines)

    # ---- as a cluster ----

    def name_of(self, node):
        """As its log calls it."""
        return f"node {self.nodes.index(node)}"

    def status(self, node=None):
        """What a node says of the cluster, by default whose turn it is; None while it says nothing."""
        client = self.client()
        try:
            answer = client.get("/v1/scheduler/status", node=node, timeout_s=5)
        except OSError:
            return None
        finally:
            client.close()
        return answer.json if answer.status == 200 else None

    def members(self, node=None):
        """Those that look after their share, as a node sees them."""
        said = self.status(node)
        return [n for n in said["nodes"] if n["state"] == "ready"] if said else []

    def settled(self, count=None, timeout_s=30):
        """Waits until every running node sees so many live ones, by default as many as run, and these share all partitions."""
        wanted = count or len(self.running())

        def agree():
            seen = [self.members(node) for node in self.running()]
            return all(len(m) == wanted and all(n["partitions"] for n in m) and sum(n["partitions"] for n in m) == 256 for m in seen)

        until(agree, timeout_s, why=lambda: f"not {wanted} members: {[self.members(n) for n in self.running()]}\n{self.log()[-3000:]}")
        return self

    def node_of(self, member):
        """Which of ours a member is: they are told apart by their process."""
        for node in self.running():
            if member["name"].endswith(f":{node.process.pid}"):
                return node
        return None

    def leader(self):
        """The node that leads; waits for one."""

        def look():
            for member in self.members():
                if member["leader"]:
                    return self.node_of(member)
            return None

        return until(look, 30, why=lambda: f"nobody leads: {self.members()}")
