"""Nodes claim tasks seconds ahead. What becomes of them when their node dies: what it cannot have fired is not lost, what is due after its burial
starts on time elsewhere, and what a user was told is cancelled never starts."""

import random
import re
import signal
import threading
import time

import pytest

from cluster import LONG
from server import at, now_ms, to_ms, until
from test_cluster_faults import new_seed
from test_cluster_handover import quantile

RATE = 1000 if LONG else 100  # tasks a second
SPREAD_S = 10 if LONG else 6  # of their due times
FENCE_BEATS = 4  # for so long after an answered heartbeat a node fires
ON_TIME_MS = 1000
CANCELS = 600 if LONG else 150
SEEN_MS = 500  # a busy receiver may note a call so long after it was sent


def buried_ms(cluster):
    """When the first node was marked dead, by the log of whoever did it."""
    for line in cluster.lines:
        if "node_marked_dead" in line:
            assert re.search(r"name\W+[\w.-]+:\d+", line), line  # for people, beside the id
            return to_ms(re.search(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", line)[0])
    return None


def create(client, receiver, path, dues_ms):
    """Returns the due time of each task by its id."""
    made = {}
    for i in range(0, len(dues_ms), 500):
        some = dues_ms[i:i + 500]
        answer = client.post("/v1/tasks/batch", [{"name": path, "run_at": at(due), **receiver.target(path)} for due in some])
        assert answer.status in (200, 201), answer
        made.update(zip([t["id"] for t in answer.json["tasks"]], some))
    assert len(made) == len(dues_ms)
    return made


def attempts_of(client, ids):
    return {i: client.all(f"/v1/tasks/{i}/executions", "executions") for i in ids}


def losses(attempts):
    """Those of which an attempt was recorded as lost."""
    return {i for i, runs in attempts.items() if any(run["status"] == "LOST" for run in runs)}


def test_what_a_killed_node_had_claimed_ahead_starts_elsewhere_and_only_what_is_in_doubt_is_lost(make_cluster, postgres, database, receiver, counts):
    seed = new_seed()
    chance = random.Random(seed)
    cluster = make_cluster(postgres.url(database)).settled()
    client = cluster.client()
    begin_ms = now_ms() + 2000
    dues_ms = sorted(int(begin_ms + chance.uniform(0, SPREAD_S * 1000)) for _ in range(RATE * SPREAD_S))
    made = create(client, receiver, "/ahead", dues_ms)
    victim = chance.choice(cluster.nodes)
    receiver.wait("/ahead", chance.randint(RATE // 2, RATE * 2))
    victim.signal(signal.SIGKILL)
    killed_ms = now_ms()
    victim.ended()
    until(lambda: len({c.id for c in receiver.to("/ahead")}) == len(made), 60, why=lambda: f"seed {seed}: not all ran\n{cluster.log()[-3000:]}")
    burial_ms = until(lambda: buried_ms(cluster), why="nobody was buried")
    first_ms = {}
    for call in receiver.to("/ahead"):
        first_ms.setdefault(call.task, call.received_ms)
    # The receiver needs half a second and more to take a thousand calls that come at once: around the burial the nodes' own record counts, and
    # what the receiver had before it.
    attempts = attempts_of(client, [i for i, due in made.items() if due > killed_ms - 500 and due < burial_ms + 2000])
    for task_id, runs in attempts.items():
        ran_ms = min(to_ms(run["started_at"]) for run in runs if run["status"] != "LOST")
        first_ms[task_id] = min(first_ms[task_id], ran_ms)
    late_ms = {i: first_ms[i] - due for i, due in made.items()}
    after = [late_ms[i] for i, due in made.items() if due > burial_ms]
    between = [i for i, due in made.items() if killed_ms < due <= burial_ms]
    # What the dead node had told the store with its last heartbeat, which it may have sent up to the moment of the kill.
    (doubt_ms,) = [int(ms) for ms in postgres.sql("SELECT fires_until_ms FROM nodes WHERE dead", database)]
    assert killed_ms - 500 < doubt_ms <= killed_ms + FENCE_BEATS * cluster.beat_s * 1000 + 100
    cleared = [i for i in between if made[i] > doubt_ms]
    lost = losses(attempts)
    counts(f"killed node, seed {seed}: {len(made)} tasks, {RATE}/s; buried after {burial_ms - killed_ms:.0f} ms; {len(lost)} recorded as lost; late: "
           f"all p99 {quantile(late_ms.values(), 0.99):.0f} max {max(late_ms.values()):.0f} ms, due after the burial p99 "
           f"{quantile(after, 0.99):.0f} max {max(after):.0f} ms")
    assert cleared and after, "this test shows nothing"
    assert not [i for i in lost if made[i] > doubt_ms], f"seed {seed}: lost although they cannot have fired"
    assert max(after) <= ON_TIME_MS, f"seed {seed}"
    assert max(late_ms[i] + made[i] for i in between) <= burial_ms + ON_TIME_MS, f"seed {seed}: what was held until the burial starts at once"
    for task_id in cleared[:20]:
        assert client.wait_for(task_id, "COMPLETED")["attempts"] == 1
    victim.start()
    cluster.stop()


def cancel_some(cluster, made, chance, stopped):
    """Cancels them in random order, each before its time, and notes when that was acknowledged."""
    client = cluster.client()
    for task_id, due_ms in made:
        while now_ms() < due_ms - chance.uniform(50, 2000):
            time.sleep(0.005)
        while now_ms() < due_ms + 10000:
            try:
                answer = client.post(f"/v1/tasks/{task_id}/cancel", timeout_s=10)
            except OSError:
                continue
            if answer.status == 200:
                stopped[task_id] = now_ms()
                break
            if answer.status == 409 and "COMPLETED" in answer.json["detail"]:
                break
            assert answer.status in (409, 503), answer
            time.sleep(0.02)
    client.close()


def test_what_was_acknowledged_as_cancelled_never_starts_while_nodes_die(make_cluster, postgres, database, receiver, counts):
    seed = new_seed()
    chance = random.Random(seed)
    cluster = make_cluster(postgres.url(database)).settled()
    client = cluster.client()
    kills = 6 if LONG else 2
    stopped, made = {}, {}
    for _ in range(kills):
        cluster.settled()
        begin_ms = now_ms() + 1000
        some = create(client, receiver, "/cancel", [int(begin_ms + chance.uniform(0, 4000)) for _ in range(CANCELS)])
        made.update(some)
        ordered = sorted(some.items(), key=lambda x: x[1])
        threads = [threading.Thread(target=cancel_some, args=(cluster, ordered[i::4], random.Random(chance.random()), stopped)) for i in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(chance.uniform(1, 3))  # the kill may come at any moment: that is the test
        victim = chance.choice(cluster.nodes)
        victim.signal(signal.SIGKILL)
        victim.ended()
        for thread in threads:
            thread.join()
        victim.start()
    cluster.settled()
    running = [i for i in made if i not in stopped]
    for task_id in running:
        client.wait_for(task_id, "COMPLETED", "CANCELLED")
    started = {}
    for call in receiver.to("/cancel"):
        started.setdefault(call.task, []).append(call.received_ms)
    # Acknowledged before its time, it never starts. Later, a call that was under way was aborted, and the receiver may notice it late.
    late = {i: [round(s - ms) for s in started.get(i, []) if s > ms + (SEEN_MS if ms > made[i] else 0)] for i, ms in stopped.items()}
    wrong = {i: (round(stopped[i] - made[i]), starts) for i, starts in late.items() if starts}
    counts(f"cancels while nodes die, seed {seed}: {len(made)} tasks, {kills} kills, {len(stopped)} cancelled, {len(wrong)} started after that")
    assert len(stopped) > CANCELS, "too few cancels: this test shows nothing"
    assert not wrong, f"seed {seed}: acknowledged so long after its time, started so long after that, ms: {wrong}"
    for task_id in list(stopped)[:50]:
        assert client.task(task_id)["status"] == "CANCELLED"
    cluster.stop()


def test_a_node_that_leaves_returns_what_it_had_claimed_ahead_at_once(make_cluster, postgres, database, receiver, counts):
    """SIGTERM: what is due while it leaves, and after that, starts on time elsewhere, once, and nothing is recorded as lost."""
    seed = new_seed()
    chance = random.Random(seed)
    cluster = make_cluster(postgres.url(database)).settled()
    client = cluster.client()
    begin_ms = now_ms() + 2000
    made = create(client, receiver, "/leave", [int(begin_ms + chance.uniform(0, 4000)) for _ in range(400)])
    receiver.wait("/leave", 50)
    leaving = chance.choice(cluster.nodes)
    leaving.signal(signal.SIGTERM)
    left_ms = now_ms()
    assert leaving.ended() == 0, leaving.log()
    until(lambda: len({c.id for c in receiver.to("/leave")}) == len(made), why=lambda: f"seed {seed}: not all ran\n{cluster.log()[-3000:]}")
    calls = receiver.to("/leave")
    assert len(calls) == len(made), "something ran twice"
    late_ms = [c.received_ms - made[c.task] for c in calls if made[c.task] > left_ms]
    counts(f"leaving node, seed {seed}: {len(late_ms)} tasks due after SIGTERM, late p99 {quantile(late_ms, 0.99):.0f} max {max(late_ms):.0f} ms")
    assert max(late_ms) <= ON_TIME_MS, f"seed {seed}"
    assert not losses(attempts_of(client, made))
    leaving.start()
    cluster.stop()


def stop_all(cluster, node, made, actions, stopped):
    """Stops each schedule through that node, several at once, and notes when that was acknowledged."""

    def stop_some(some):
        client = cluster.client()
        for task_id in some:
            action = actions[task_id]
            method, path = ("DELETE", "") if action == "delete" else ("POST", f"/{action}")
            ask = lambda: client.request(method, f"/v1/tasks/{task_id}{path}", node=node, timeout_s=20)
            while (answer := ask()).status == 503:  # the node that is gone may hold a lock of the store
                pass
            assert answer.status in (200, 204), answer
            stopped[task_id] = now_ms()
        client.close()

    threads = [threading.Thread(target=stop_some, args=(made[i::10],)) for i in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stopped) == len(made)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_what_a_dead_node_had_claimed_of_a_stopped_schedule_never_starts(make_cluster, postgres, database, receiver, counts, number):
    """The schedules are stopped before anybody knows that the node is gone. It holds their next occurrences, and nobody gives these back until
    it is marked dead."""
    cluster = make_cluster(postgres.url(database), beat_s=1).settled()
    client = cluster.client()
    made = [client.create(name="stop", interval_seconds=2, **receiver.target("/stop"))["id"] for _ in range(30)]
    actions = {task_id: ("cancel", "pause", "delete")[i % 3] for i, task_id in enumerate(made)}
    others = [client.create(name="goes-on", interval_seconds=1, **receiver.target("/goes-on"))["id"] for _ in range(6)]
    receiver.wait("/stop", 60)
    victim, asked, stopped = cluster.nodes[0], cluster.nodes[1], {}
    gone_ms = now_ms()
    victim.signal(number)
    stop_all(cluster, asked, made, actions, stopped)
    dead_ms = until(lambda: buried_ms(cluster), 30, why=lambda: f"it was not marked dead\n{cluster.log()[-3000:]}")
    until(lambda: all(any(c.task == i and c.scheduled_ms > dead_ms + 1000 for c in receiver.to("/goes-on")) for i in others), 30,
          why=lambda: f"its work was not resumed\n{cluster.log()[-3000:]}")
    first = {}
    for call in receiver.to("/stop"):
        first.setdefault(call.id, call)
    # An occurrence of a paused schedule that the node may have fired is a run that has begun: it goes on.
    doubt_ms = gone_ms + FENCE_BEATS * cluster.beat_s * 1000
    wrong = [(actions[c.task], round(c.scheduled_ms - gone_ms), round(c.received_ms - stopped[c.task])) for c in first.values()
             if c.received_ms > stopped[c.task] + SEEN_MS and (actions[c.task] != "pause" or c.scheduled_ms > doubt_ms)]
    late = sum(ms < dead_ms for ms in stopped.values())
    counts(f"schedules stopped while a node is gone: {late} of {len(made)} before it was marked dead, {len(wrong)} runs started after that")
    assert late > 0, "the node was marked dead too soon: this test shows nothing"
    assert not wrong, f"started after the answer; due after the fault, started after the answer, ms: {wrong}"
    if number == signal.SIGSTOP:
        victim.signal(signal.SIGCONT)
    cluster.stop()
