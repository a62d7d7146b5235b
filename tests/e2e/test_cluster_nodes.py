"""Who is in a cluster: shares, the leader, who died, who comes again, and clocks that differ."""

import signal
import time

import pytest

from server import until

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
