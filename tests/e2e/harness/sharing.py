"""Servers that several tests of a process share, because a start takes longer than most tests.

    @pytest.mark.shared   the test leaves no trace: what it asks for is refused, or only read
    @pytest.mark.tenant   the test is a tenant of its own among others, which see nothing of each other; a test that stops the server, counts what
                          all tenants do or asks for what only the tenant `default` may see is marked own_server
"""

import itertools
import os

import openapi
from server import SANITIZER, Client, until

KINDS = ("shared", "tenant")


def kind_of(item):
    """How a test shares its server; None: not at all."""
    if item.get_closest_marker("own_server"):
        return None
    return next((kind for kind in KINDS if item.get_closest_marker(kind)), None)


class Guest:
    """A server as one of its tenants sees it: the key, and the folder that commands read it from, are the tenant's."""

    OF_THE_OWNER = ("start", "stop", "kill", "signal", "close", "launch")

    def __init__(self, server, folder, number):
        self.server, self.data_dir, self.name = server, folder, f"guest{number}"
        owner = server.client()
        assert owner.post("/v1/tenants", {"name": self.name}).status == 201
        made = owner.post("/v1/api-keys", {"name": "admin", "scopes": ["admin"], "tenant": self.name})
        assert made.status == 201, made
        owner.close()  # an idle connection would not last as long as some tests
        self.key = made.json["key"]
        folder.mkdir()
        with open(os.open(folder / "admin.key", os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(self.key + "\n")

    def __getattr__(self, name):
        assert name not in Guest.OF_THE_OWNER, f"others share this server: mark the test own_server to {name} it"
        return getattr(self.server, name)

    def client(self, check=openapi.check):
        return Client(self, check)

    def leave(self):
        """What is left of it does nothing from now on."""
        owner = self.server.client()
        assert owner.request("PATCH", f"/v1/tenants/{self.name}", {"disabled": True}).status == 200
        owner.close()


class SharedServers:
    """make(topology): a server that is not started yet."""

    def __init__(self, make):
        self.make = make
        self.made = {}
        self.numbers = itertools.count(1)

    def lend(self, kind, topology):
        server = self.made.pop((kind, topology), None)
        if not server:
            return self.make(topology).start()
        client = server.client()
        for node in server.nodes:  # their database may have been stopped since
            until(lambda: client.get("/ready", auth=False, node=node).status == 200, why=server.log)
        client.close()
        return server

    def take_back(self, kind, topology, server):
        """One that is not as it was is not lent again."""
        left = self.left_in(kind, server)
        if left:
            server.close()
            raise AssertionError(f"a test that is marked {kind} left {left}:\n{server.log()}")
        self.made[kind, topology] = server

    @staticmethod
    def left_in(kind, server):
        if not all(one.runs() for one in server.processes):
            return "a process that has ended"
        if SANITIZER.search(server.log()):
            return "an error of the program"
        client = server.client()
        tasks = client.get("/v1/tasks?limit=1").json["tasks"] if kind == "shared" else []
        client.close()
        return tasks

    def borrowed(self, kind, topology, folder):
        """What the fixture `server` yields."""
        server = self.lend(kind, topology)
        try:
            guest = Guest(server, folder / "guest", next(self.numbers)) if kind == "tenant" else None
            yield guest or server
            if guest:
                guest.leave()
        except BaseException:
            server.close()
            raise
        self.take_back(kind, topology, server)

    def stop(self):
        for server in self.made.values():
            server.stop()
