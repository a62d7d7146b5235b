"""Nodes that go and come: how soon others do a dead one's work, how soon a new one gets its share, and that nobody notices who leads."""

import random
import re
import signal
import time

import pytest

from cluster import LONG
from load import Load
from oracle import Beat, judge
from server import Reply, at, now_ms, until
from test_cluster_faults import conclude, new_seed

KILLS = 50 if LONG else 5
LEADERS = 20 if LONG else 4
RESUME_MS = 5000  # promised of a dead node's work
SHARE_S = 3  # promised to a new one
TASKS = 40  # under way or due around a kill
EXECUTED = re.compile(r"^belfry_tasks_executed_total (\d+)$", re.M)


def quantile(values, q):
    values = sorted(values)
    return values[min(int(q * len(values)), len(values) - 1)]


def test_a_killed_nodes_work_runs_elsewhere_within_five_seconds(make_cluster, postgres, database, receiver, counts):
    """Counted from the kill, or from its due time, to the call that was answered; of what the dead node had, which is what was called again
    or came late."""
    seed = new_seed()
    chance = random.Random(seed)
    cluster = make_cluster(postgres.url(database))
    client = cluster.client()
    resumed_ms, orphans = [], 0
    for n in range(KILLS):
        cluster.settled()
        path = f"/kill/{n}"
        receiver.answer(path, Reply(takes_s=0.3))
        begin_ms = now_ms() + 300
        answer = client.post("/v1/tasks/batch", [{"name": path, "run_at": at(begin_ms + chance.uniform(0, 1500)), **receiver.target(path)}
                                                 for _ in range(TASKS)])
        made = [t["id"] for t in answer.json["tasks"]]
        assert len(made) == TASKS, answer
        victim = chance.choice(cluster.nodes)
        receiver.wait(path, chance.randint(5, TASKS // 2))
        killed_ms = now_ms()
        victim.kill()
        until(lambda: len({c.id for c in receiver.to(path)}) == TASKS and all(client.task(i)["status"] == "COMPLETED" for i in made),
              why=lambda: f"seed {seed}: not all ran\n{cluster.log()[-3000:]}")
        calls = receiver.to(path)
        last = {c.id: max((x for x in calls if x.id == c.id), key=lambda x: x.fence) for c in calls}
        late = {i: c.received_ms - max(c.scheduled_ms, killed_ms) for i, c in last.items() if c.received_ms > killed_ms}
        again = [i for i in last if sum(c.id == i for c in calls) > 1]
        orphans += len(again)
        resumed_ms.append(max(late.values(), default=0))
        victim.start()
    counts(f"killed nodes, seed {seed}: {KILLS} kills, {orphans} calls run again; the last of a dead node's work ran after p50 "
           f"{quantile(resumed_ms, 0.5):.0f} p99 {quantile(resumed_ms, 0.99):.0f} max {max(resumed_ms):.0f} ms")
    assert orphans > 0, "no node had anything under way: this test shows nothing"
    assert quantile(resumed_ms, 0.99) <= RESUME_MS, resumed_ms
    cluster.stop()


def executed(client, node):
    return int(EXECUTED.search(client.get("/metrics", node=node).body.decode())[1])


def test_a_node_that_joins_gets_its_share_within_three_seconds(make_cluster, postgres, database, receiver, counts):
    cluster = make_cluster(postgres.url(database), start=False)
    joining = cluster.nodes.pop()
    cluster.start().settled(2)
    load = Load(cluster, receiver, seed=3).start()
    until(lambda: len(receiver.calls) > 30, why="no calls came")
    joining.start()
    began = time.monotonic()
    cluster.nodes.append(joining)
    client = cluster.client()
    until(lambda: executed(client, joining) > 0, SHARE_S, why=lambda: f"it does nothing\n{joining.log()}")
    works_s = time.monotonic() - began
    cluster.settled(3, timeout_s=max(0.1, SHARE_S - works_s))
    shares = [m["partitions"] for m in cluster.members()]
    counts(f"a joining node ran its first task after {works_s:.2f} s and had its share after {time.monotonic() - began:.2f} s: {shares}")
    assert min(shares) > 256 / 3 / 2, shares
    report = load.finish()
    assert not report.wrong and report.duplicated == 0, "\n".join(report.wrong[:20])
    cluster.stop()


def test_a_node_that_leaves_in_peace_hands_over_at_once(make_cluster, postgres, database, receiver):
    """SIGTERM: nobody waits until it is found dead."""
    cluster = make_cluster(postgres.url(database)).settled()
    load = Load(cluster, receiver, seed=4).start()
    until(lambda: len(receiver.calls) > 30, why="no calls came")
    leaving = cluster.nodes[1]
    leaving.signal(signal.SIGTERM)
    assert leaving.ended() == 0, leaving.log()
    cluster.settled(2, timeout_s=0.8 * cluster.dead_s)
    leaving.start()
    report = load.finish()
    assert not report.wrong and report.duplicated == 0, "\n".join(report.wrong[:20])
    cluster.stop()


def test_a_recurring_task_fires_every_second_once_across_leader_changes(make_cluster, postgres, database, receiver, counts):
    seed = new_seed()
    chance = random.Random(seed)
    cluster = make_cluster(postgres.url(database)).settled()
    client = cluster.client()
    task = client.create(name="tick", interval_seconds=1, overlap_policy="ALLOW", catch_up_mode="RUN_ALL_MISSED", **receiver.target("/tick"))
    load = Load(cluster, receiver, seed, creators=0, beats=0)  # for its record of faults
    leaders = []
    for _ in range(LEADERS):
        seen = len(receiver.to("/tick"))
        receiver.wait("/tick", seen + 1)
        leader = cluster.leader()
        leaders.append(leader.process.pid)
        how = chance.choice(("kill", "SIGTERM", "SIGSTOP"))
        fault = load.fault(f"{how} of the leader", excuses=how != "SIGTERM")
        if how == "kill":
            leader.kill()
        else:
            leader.signal(signal.SIGTERM if how == "SIGTERM" else signal.SIGSTOP)
        others = [node for node in cluster.nodes if node is not leader]

        def led_by_another():
            members = cluster.members(others[0])
            return any(m["leader"] and cluster.node_of(m) in others for m in members)

        until(led_by_another, 30, why=lambda: f"nobody else leads\n{cluster.log()[-3000:]}")
        if how == "SIGSTOP":
            leader.signal(signal.SIGCONT)
        else:
            leader.ended()
            leader.start()
        fault.to_ms = now_ms()
        cluster.settled()
    seen = len(receiver.to("/tick"))
    receiver.wait("/tick", seen + 2)
    client.act(task["id"], "pause")
    until(lambda: all(t["status"] in ("COMPLETED", "SKIPPED") for t in client.all(f"/v1/tasks/{task['id']}/occurrences")), why="not all ended")
    calls = receiver.to("/tick")
    report = judge([], [Beat("/tick", task["id"], 1000, max(c.scheduled_ms for c in calls) + 1)], calls, load.faults, {})
    counts(f"a tick each second over {LEADERS} leader changes, seed {seed}: {report}")
    assert not report.wrong, "\n".join([f"seed {seed}", *report.wrong[:20], cluster.log()[-3000:]])
    assert report.lost == report.early == 0
    cluster.stop()


@pytest.mark.parametrize("skews_ms", [(90_000, 0, -90_000), (0, 700, -300)], ids=["minutes", "a little"])
def test_nodes_whose_clocks_differ_fire_on_time_and_once(make_cluster, postgres, database, receiver, clocks, counts, skews_ms):
    """Early is by the clock of the database, which is the receiver's here."""
    seed = new_seed()
    for clock, skew_ms in zip(clocks, skews_ms):
        clock.jump(skew_ms)
    cluster = make_cluster(postgres.url(database), env=[c.env for c in clocks]).settled()
    load = Load(cluster, receiver, seed, due_ms=(0, 2000)).start()
    until(lambda: len(receiver.calls) > 300, why="no calls came")
    offsets = sorted(m["clock_offset_ms"] for m in cluster.members())
    assert all(abs(abs(a) - abs(b)) < 200 for a, b in zip(offsets, sorted(-s for s in skews_ms))), (offsets, skews_ms)
    report = conclude(load, cluster, counts, seed, f"clocks apart by {max(skews_ms) - min(skews_ms)} ms")
    assert report.duplicated == 0 and report.quantile(0.5) < 1000
    cluster.stop()
