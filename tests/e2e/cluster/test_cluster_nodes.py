"""Who is in a cluster: shares, the leader, who died, who comes again, and clocks that differ."""

import re
import signal
import threading
import time

import pytest

from server import Reply, until

PARTITIONS = 256


def nodes_of(client, alive=True):
    return [n for n in client.get("/v1/scheduler/status").json["nodes"] if n["alive"] == alive]


def are_shared_out(client, count):
    nodes = nodes_of(client)
    return (len(nodes) == count and all(n["state"] == "ready" for n in nodes)
            and sum(n["partitions"] for n in nodes) == PARTITIONS and sum(n["leader"] for n in nodes) == 1)


def until_shared_out(server, count):
    until(lambda: are_shared_out(server.client(), count), why=f"{count} nodes did not share the partitions")


@pytest.mark.standalone("it is about one node")
def test_a_node_alone_has_everything(server, belfry):
    until_shared_out(server, 1)
    (node,) = nodes_of(server.client())
    assert (node["partitions"], node["leader"], node["state"], node["clock_offset_ms"]) == (PARTITIONS, True, "ready", 0)
    done = belfry("node", "list", "--server", server.url, "--data-dir", server.data_dir)
    assert done.code == 0 and done.out.splitlines()[0].split()[:3] == ["NAME", "STATE", "LEADER"]
    assert node["name"] in done.out and len(done.out.splitlines()) == 2


@pytest.mark.standalone("it is about one node")
def test_a_node_alone_writes_nothing_while_it_is_idle(server):
    until_shared_out(server, 1)
    log = server.data_dir / "belfry.db-wal"
    before = (log.stat().st_mtime_ns, log.stat().st_size)
    time.sleep(2)  # nothing is to happen
    assert (log.stat().st_mtime_ns, log.stat().st_size) == before


def test_nodes_share_all_partitions_and_one_leads(make_cluster, postgres, database):
    cluster = make_cluster(postgres.url(database))
    until_shared_out(cluster, 3)
    assert all(abs(n["clock_offset_ms"]) < 1000 for n in nodes_of(cluster.client()))


def test_a_killed_node_is_buried_and_its_partitions_are_taken_over(make_cluster, postgres, database):
    cluster = make_cluster(postgres.url(database))
    until_shared_out(cluster, 3)
    killed = time.monotonic()
    cluster.nodes[2].process.kill()
    cluster.nodes[2].ended()
    until_shared_out(cluster, 2)
    assert time.monotonic() - killed < 5
    assert len(nodes_of(cluster.client(), alive=False)) == 1


def test_a_node_that_leaves_leaves_nothing_behind(make_cluster, postgres, database):
    cluster = make_cluster(postgres.url(database))
    until_shared_out(cluster, 3)
    cluster.nodes[0].signal(signal.SIGTERM)
    assert cluster.nodes[0].ended() == 0
    until_shared_out(cluster, 2)
    assert nodes_of(cluster.client(), alive=False) == []


def test_a_node_that_was_stopped_for_long_joins_again_under_a_new_id(make_cluster, postgres, database):
    cluster = make_cluster(postgres.url(database))
    until_shared_out(cluster, 3)
    stopped, other = cluster.nodes[2], cluster.nodes[0].client()
    before = {n["id"] for n in nodes_of(other)}
    stopped.signal(signal.SIGSTOP)
    until(lambda: are_shared_out(other, 2), why="nobody noticed")
    stopped.signal(signal.SIGCONT)
    until(lambda: are_shared_out(other, 3), why="it did not join again")
    assert len({n["id"] for n in nodes_of(other)} - before) == 1
    assert "found_dead" in stopped.log()


def test_while_an_older_node_runs_failures_are_noted_and_told_later(make_cluster, postgres, database, receiver):
    """A node whose heartbeat does not name notifications: settings are refused, and nothing is folded."""
    cluster = make_cluster(postgres.url(database), env={"BELFRY_HTTP_ALLOW_LOOPBACK": "true"}).settled()
    client = cluster.client()
    setting = {"name": "ops", "on_failure": True, "group_wait": "0s", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": receiver.url("/told")}}
    assert client.post("/v1/notification-settings", setting).status == 201
    postgres.sql("INSERT INTO nodes (id, name, version, beats, joined_ms, dead, doc) "
                 "SELECT gen_random_uuid(), 'old', '0.1', 1, joined_ms, false, '{}' FROM nodes LIMIT 1", database)
    over = threading.Event()

    def beat():
        while not over.wait(0.3):
            postgres.sql("UPDATE nodes SET beats = beats + 1 WHERE name = 'old'", database)
    beating = threading.Thread(target=beat)
    beating.start()
    try:
        refuses = lambda node: "older" in client.request("POST", "/v1/notification-settings", setting, node=node).json.get("detail", "")
        until(lambda: all(map(refuses, cluster.nodes)), why="settings are not refused")
        receiver.answer("/fail", Reply(400))
        for _ in range(10):  # some may be in partitions that the older node has
            client.create(retry={"max_attempts": 1}, delay="0s", **receiver.target("/fail"))
        waits = re.compile(r"^belfry_notification_oldest_seconds (\S+)$", re.M)
        until(lambda: all(float(waits.search(client.get("/metrics", node=n).body.decode())[1]) > 1.5 for n in cluster.nodes), why="nothing waits")
        assert not receiver.to("/told") and not client.get("/v1/incidents").json["incidents"]
    finally:
        over.set()
        beating.join()
    receiver.wait("/told")
