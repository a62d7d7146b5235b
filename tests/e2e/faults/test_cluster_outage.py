"""The database is away: for a while, or for good and another server takes its place. No node ends, nothing is lost and nothing runs twice."""

import threading
import time

import pytest

from cluster import LONG
from load import Load
from postgres import Postgres
from server import Reply, now_ms, until
from test_cluster_faults import LATE_MS, conclude, new_seed

OUTAGE_S = 30 if LONG else 5
FAILOVERS = 6 if LONG else 1


def flows(load, count=30):
    seen = len(load.receiver.calls)
    until(lambda: len(load.receiver.calls) > seen + count, why=lambda: f"no calls come\n{load.server.log()[-3000:]}")


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_an_outage_of_the_database_ends_no_node_and_repeats_nothing(make_cluster, postgres, database, receiver, counts, how):
    cluster = make_cluster(postgres.url(database))
    pids = [node.process.pid for node in cluster.nodes]
    client = cluster.client()
    hold = threading.Event()
    receiver.answer("/slow", Reply(hold=hold))
    slow = client.create(name="slow", **receiver.target("/slow"))
    receiver.wait("/slow")
    receiver.calls.clear()  # the judge knows only of the load
    seed = new_seed()
    load = Load(cluster, receiver, seed, patience_s=2).start()
    flows(load)
    assert all(client.get("/metrics", node=node).status == 200 for node in cluster.nodes)
    fault = load.fault(f"outage of {OUTAGE_S} s", excuses=False)
    postgres.stop(how)
    began = time.monotonic()
    hold.set()  # it ends while nobody can write that down
    refused = [until(lambda: (a := client.post("/v1/tasks", {"target_type": "NOOP"}, node=node)).status == 503 and a, why="it does not say so")
               for node in cluster.nodes]
    assert all(int(a.headers["retry-after"]) >= 1 for a in refused), refused
    assert all(client.get("/health", node=node, auth=False).status == 200 for node in cluster.nodes)
    seen = [client.get("/metrics", node=node) for node in cluster.nodes]
    assert all(a.status == 200 and b"belfry_claim_failures_total" in a.body for a in seen), "they are wanted now"
    threading.Event().wait(max(0, OUTAGE_S - (time.monotonic() - began)))  # the fault itself
    postgres.start()
    fault.to_ms = now_ms()
    flows(load)
    report = conclude(load, cluster, counts, seed, f"outage ({how})", late_ms=OUTAGE_S * 1000 + LATE_MS)
    assert report.duplicated == 0
    client.wait_for(slow["id"], "COMPLETED")
    assert [x["status"] for x in client.get(f"/v1/tasks/{slow['id']}/executions").json["executions"]] == ["COMPLETED"]
    assert [node.process.pid for node in cluster.nodes] == pids and len(cluster.running()) == 3
    cluster.settled()
    cluster.stop()


def test_a_promoted_standby_takes_over_and_nothing_is_lost_or_repeated(make_cluster, receiver, counts):
    seed = new_seed()
    with Postgres() as first:
        database = first.new_database()
        servers = [first, first.standby()]
        try:
            cluster = make_cluster(first.url(database, *(s.port for s in servers)))
            load = Load(cluster, receiver, seed, patience_s=2).start()
            flows(load)
            for n in range(FAILOVERS):
                fault = load.fault("failover", excuses=False)
                servers[0].stop("immediate")
                servers[1].promote()
                fault.to_ms = now_ms()
                flows(load)
                servers.reverse()
                if n + 1 < FAILOVERS:  # the old one comes back as the standby of the new one, on its own port
                    servers[1].follow(servers[0])
            report = conclude(load, cluster, counts, seed, "failover to a synchronous standby")
            assert report.duplicated == 0
            cluster.stop()
        finally:
            for server in servers:
                server.close()
