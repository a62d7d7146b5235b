"""Live events on several nodes: who watches on one node sees what happens on the others, and which nodes come and go."""

import pytest

from events import Events
from server import until

FAR = {"target_type": "NOOP", "delay": "1d"}


@pytest.fixture
def cluster(make_cluster, postgres, database):
    cluster = make_cluster(postgres.url(database)).settled()
    yield cluster
    cluster.stop()


def test_a_reader_sees_all_nodes(cluster):
    client = cluster.client()
    with Events(cluster) as events:
        for node in cluster.nodes:
            answer = client.post("/v1/tasks", FAR, node=node)
            events.saw(answer.json["id"], "SCHEDULED")
        until(lambda: events.counts()["created"] == 3, why=lambda: events.counts())
        until(lambda: events.counts()["due"] == 0, why=lambda: events.counts())
        assert client.post("/v1/tasks/batch", [FAR] * 1000, node=cluster.nodes[1]).status == 201
        until(lambda: len(events.tasks()) + events.folded() == 1003, why=lambda: (len(events.tasks()), events.folded()))
        until(lambda: events.counts()["created"] == 1003, why=lambda: events.counts())
        job = client.post("/v1/tasks/bulk", {"action": "pause", "filter": {"all": True}}, node=cluster.nodes[2]).json["id"]
        until(lambda: [j for j in events.of("job") if j["id"] == job and j["state"] == "DONE"], why=lambda: events.of("job"))
        setting = client.post("/v1/notification-settings", {"name": "ops", "on_failure": True, "delivery_type": "PUSH",
                                                            "delivery_config": {"url": "http://127.0.0.1:1/", "topic": "t"}}, node=cluster.nodes[1]).json
        client.post("/v1/tasks", {"target_type": "HTTP_CALLBACK", "target_config": {"url": "http://127.0.0.1:1/"}, "retry": {"max_attempts": 1}}, node=cluster.nodes[2])
        opened = until(lambda: events.of("incident"), why=lambda: events.events)[0]  # whatever node has folded it
        assert (opened["setting"], opened["change"]) == (setting["id"], "OPENED")
        client.post(f"/v1/incidents/{opened['id']}/ack", node=cluster.nodes[2])
        until(lambda: "ACKNOWLEDGED" in [i["change"] for i in events.of("incident")], why=lambda: events.of("incident"))
        key = client.post("/v1/api-keys", {"name": "short", "scopes": ["tasks:read"]}).json
        with Events(cluster, key["key"]) as short:
            assert client.request("DELETE", f"/v1/api-keys/{key['id']}", node=cluster.nodes[1]).status == 204
            assert short.ended()[1]["reason"] == "KEY_REVOKED"
            assert not short.of("node")


def test_nodes_that_come_and_go_are_told(cluster):
    with Events(cluster) as events:
        cluster.nodes[2].stop()
        until(lambda: [n for n in events.of("node") if n["state"] == "left"], why=lambda: events.of("node"))
        cluster.nodes[1].kill()
        until(lambda: [n for n in events.of("node") if n["state"] == "dead"], why=lambda: events.of("node"))
        cluster.nodes[1].start()
        cluster.nodes[2].start()
        until(lambda: len([n for n in events.of("node") if n["state"] == "ready"]) == 2, why=lambda: events.of("node"))
