"""Limits that hold for all nodes together, judged by what the receiver sees while all three are asked at once: of a queue, of a concurrency key,
of overlapping runs, of a tenant; and keys that make one task, whichever node they come to."""

import concurrent.futures
import os
import random
import signal
import threading

import pytest

from oracle import FINAL, assert_none_dropped, most_at_once
from server import Reply, at, now_ms, to_ms, until

LONG = bool(os.environ.get("BELFRY_TEST_LONG"))
ROUNDS = 10 if LONG else 1
SLACK_MS = 100


def new_seed():
    return int(os.environ.get("BELFRY_TEST_SEED", random.randrange(1 << 30)))


@pytest.fixture
def cluster(make_cluster, postgres, database):
    cluster = make_cluster(postgres.url(database)).settled()
    yield cluster
    cluster.stop()


def at_once(cluster, count, ask):
    """ask(client, i), by as many clients as there are nodes and more, each to the node whose turn it is."""

    def one(i):
        client = cluster.client()
        try:
            return ask(client, i)
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        return list(pool.map(one, range(count)))


def make_tasks(cluster, receiver, path, count, **more):
    """By all nodes, a few a request."""
    body = {"name": path, **more, **receiver.target(path)}
    answers = at_once(cluster, count // 10, lambda client, i: client.post("/v1/tasks/batch", [body] * 10))
    assert all(a.status == 201 for a in answers), answers
    return [t["id"] for a in answers for t in a.json["tasks"]]


def all_done(client, made, why=""):
    def left():
        return [t["id"] for t in client.all("/v1/tasks?status=SCHEDULED,BLOCKED,RUNNING")]

    until(lambda: not left(), why=lambda: f"{why}: not all ran: {len(left())} of {len(made)} left\n{client.server.log()[-3000:]}")


# ----------------------------------------------------------------------------------------------------------------------
# queues


def test_the_concurrency_of_a_queue_is_reached_and_never_exceeded(cluster, receiver, counts):
    client = cluster.client()
    assert client.request("PUT", "/v1/queues/q", {"max_concurrent": 7}).status == 200
    receiver.answer("/q", Reply(takes_s=0.05))
    made = make_tasks(cluster, receiver, "/q", 300, queue="q")
    free = make_tasks(cluster, receiver, "/free", 30)
    all_done(client, made + free)
    calls = receiver.to("/q")
    most = most_at_once(calls)
    span_s = (max(c.answered_ms for c in calls) - min(c.received_ms for c in calls)) / 1000
    counts(f"a queue of 7 at once on three nodes: {len(calls)} calls in {span_s:.1f} s ({300 * 0.05 / 7:.1f} s at best), most at once {most}")
    assert len(calls) == 300 and len({c.id for c in calls}) == 300
    assert most == 7, "a limit of the whole queue, whoever takes from it"


def test_a_limit_smaller_than_the_nodes_are_many_is_kept_and_starves_nobody(cluster, receiver):
    client = cluster.client()
    assert client.request("PUT", "/v1/queues/one", {"max_concurrent": 1}).status == 200
    receiver.answer("/one", Reply(takes_s=0.02))
    made = make_tasks(cluster, receiver, "/one", 60, queue="one")
    all_done(client, made)
    calls = receiver.to("/one")
    assert most_at_once(calls) == 1 and {c.id for c in calls} == set(made)


def test_the_rate_of_a_queue_is_kept_by_all_nodes_together(cluster, receiver, counts):
    rate, burst, count = 40, 10, 160
    client = cluster.client()
    assert client.request("PUT", "/v1/queues/r", {"max_dispatches_per_second": rate, "max_burst": burst}).status == 200
    made = make_tasks(cluster, receiver, "/r", count, queue="r")
    all_done(client, made)
    assert len(receiver.to("/r")) == count
    # In any span there are no more than what the bucket holds and what flows in. By what nodes say: on a busy machine the receiver's threads
    # write down late, and at once, what came in its time.
    times = sorted(to_ms(run["started_at"]) for i in made for run in client.all(f"/v1/tasks/{i}/executions", "executions"))
    assert len(times) == count
    worst = max((j - i + 1) - (burst + rate * (times[j] - times[i] + SLACK_MS) / 1000) for i in range(count) for j in range(i, count))
    span_s = (times[-1] - times[0]) / 1000
    counts(f"a queue of {rate} a second (burst {burst}) on three nodes: {count} calls in {span_s:.2f} s, {(count - burst) / rate:.2f} s at best")
    # What a node took and could not use yet, because it waited for its turn on a busy machine, comes on top of what flows then (QUEUES.md): a
    # slice of each but the one that goes on. Nodes that kept a rate each would be a hundred over.
    assert worst <= 1 + (len(cluster.nodes) - 1) * burst, f"{worst:.1f} calls too many"
    assert span_s < 2.5 * (count - burst) / rate, "tokens lie idle"


def test_a_paused_queue_is_paused_on_every_node(cluster, receiver):
    client = cluster.client()
    assert client.request("PATCH", "/v1/queues/p", {"paused": True}).status == 200
    made = make_tasks(cluster, receiver, "/p", 60, queue="p")
    free = make_tasks(cluster, receiver, "/free", 60)
    until(lambda: all(client.task(i)["status"] == "COMPLETED" for i in free), why="others do not run")
    assert receiver.to("/p") == []
    assert client.request("PATCH", "/v1/queues/p", {"paused": False}).status == 200
    all_done(client, made)
    assert len(receiver.to("/p")) == 60


# ----------------------------------------------------------------------------------------------------------------------
# slots


@pytest.mark.parametrize("limit", [1, 3])
def test_a_concurrency_key_is_one_for_all_nodes(cluster, receiver, limit):
    receiver.answer("/k", Reply(takes_s=0.02))
    made = make_tasks(cluster, receiver, "/k", 90, concurrency_key="k", concurrency_limit=limit)
    all_done(cluster.client(), made)
    calls = receiver.to("/k")
    assert most_at_once(calls) == limit and {c.id for c in calls} == set(made) and len(calls) == len(made)


@pytest.mark.parametrize("policy", ["QUEUE_ALL", "SKIP", "CANCEL_PREVIOUS"])
def test_runs_of_one_task_meet_wherever_they_are(cluster, receiver, policy):
    receiver.answer("/o", Reply(takes_s=1.4))
    client = cluster.client()
    tasks = [client.create(name=f"o{i}", interval_seconds=1, max_runs=4, overlap_policy=policy, **receiver.target("/o")) for i in range(3)]
    for task in tasks:
        client.wait_for(task["id"], "COMPLETED")

    def ended(task):
        runs = client.all(f"/v1/tasks/{task['id']}/occurrences")
        return all(r["status"] in FINAL for r in runs) and runs

    for task in tasks:
        runs = until(lambda task=task: ended(task), why=lambda task=task: f"not all ended: {client.all('/v1/tasks/' + task['id'] + '/occurrences')}")
        calls = [c for c in receiver.to("/o") if c.task == task["id"]]
        states = sorted(r["status"] for r in runs)
        if policy == "CANCEL_PREVIOUS":
            assert "CANCELLED" in states and states.count("COMPLETED") >= 1, states
            why = {r["last_error"] for r in (client.task(r["id"]) for r in runs if r["status"] == "CANCELLED")}
            assert all(w.startswith("replaced by the run of ") for w in why), why
        else:
            assert most_at_once(calls) == 1, [(c.received_ms, c.answered_ms) for c in calls]
            assert ("SKIPPED" in states) == (policy == "SKIP"), states
            assert_none_dropped(client.task(task["id"]), runs, 4)


@pytest.mark.parametrize("part", range(ROUNDS))
@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.heavy
def test_limits_hold_while_nodes_die_and_nothing_stays_taken(cluster, receiver, counts, how, part):
    """What was in flight on the dead node is an orphan from then on; its slots and places are free again, and all are used at the end."""
    seed = new_seed()
    chance = random.Random(seed)
    client = cluster.client()
    assert client.request("PUT", "/v1/queues/q", {"max_concurrent": 4}).status == 200
    limits = {"/mutex": 1, "/three": 3, "/q": 4}
    for path in limits:
        receiver.answer(path, Reply(takes_s=0.03))
    due_ms = now_ms() + 300
    made = []
    for path, more in (("/mutex", {"concurrency_key": "mutex"}), ("/three", {"concurrency_key": "three", "concurrency_limit": 3}),
                       ("/q", {"queue": "q"})):
        made += make_tasks(cluster, receiver, path, 150, run_at=at(due_ms + chance.uniform(0, 500)), **more)
    faults = []
    for victim in chance.sample(cluster.nodes, 2):
        seen = len(receiver.calls)
        until(lambda: len(receiver.calls) > seen + 20, why=lambda: f"seed {seed}: it does not go on\n{cluster.log()[-3000:]}")
        faults.append(now_ms())
        if how == "kill":
            victim.kill()
            victim.start()
        else:
            victim.signal(signal.SIGSTOP)
            threading.Event().wait(1.3 * cluster.dead_s)  # the fault itself
            faults.append(now_ms())  # what it was about to send when it was stopped goes out now
            victim.signal(signal.SIGCONT)
    all_done(client, made, f"seed {seed}")
    calls = {path: receiver.to(path) for path in limits}
    most = {path: most_at_once(found, faults, only_repeated=True) for path, found in calls.items()}
    counts(f"limits while nodes {how}, seed {seed}: {len(made)} tasks, {sum(map(len, calls.values()))} calls; most at once {most}")
    assert all(most[path] <= limit for path, limit in limits.items()), f"seed {seed}: {most}"
    assert {c.id for found in calls.values() for c in found} == set(made)
    receiver.answer("/q", Reply(takes_s=0.2))
    last_ms = now_ms()
    all_done(client, make_tasks(cluster, receiver, "/q", 20, queue="q"))
    assert most_at_once([c for c in receiver.to("/q") if c.received_ms > last_ms]) == 4, "places of the dead are not given back"


# ----------------------------------------------------------------------------------------------------------------------
# keys that make one task


def test_a_dedupe_key_makes_one_task_on_whichever_nodes_it_comes_at_once(cluster, receiver):
    for n in range(10):
        body = {"name": "d", "dedupe_key": f"d{n}", "delay": "1h", **receiver.target("/d")}
        answers = at_once(cluster, 12, lambda client, i, body=body: client.post("/v1/tasks", body))
        assert {a.status for a in answers} <= {200, 201}, answers
        assert len({a.json["id"] for a in answers}) == 1 and sum(a.status == 201 for a in answers) == 1
    assert len(cluster.client().all("/v1/tasks")) == 10


def test_an_idempotency_key_is_answered_the_same_by_every_node(cluster, receiver):
    for n in range(10):
        body = {"name": f"i{n}", **receiver.target(f"/i/{n}")}

        def ask(client, i, body=body, n=n):
            return until(lambda: (a := client.post("/v1/tasks", body, key=f"key-{n}")).status != 409 and a, why="it stays in progress")

        answers = at_once(cluster, 12, ask)
        assert {a.status for a in answers} == {201} and len({a.body for a in answers}) == 1, answers
    client = cluster.client()
    all_done(client, range(10))
    assert sorted(c.path for c in receiver.calls) == [f"/i/{n}" for n in range(10)]
    for node in cluster.nodes:
        assert client.post("/v1/tasks", {"name": "other", "target_type": "NOOP"}, key="key-0", node=node).status == 422


def test_what_a_tenant_may_have_waiting_is_counted_over_all_nodes(cluster):
    client = cluster.client()
    assert client.post("/v1/tenants", {"name": "small", "max_pending": 25}).status == 201
    key = client.post("/v1/api-keys", {"tenant": "small", "name": "k", "scopes": ["tasks:write", "tasks:read"]})
    assert key.status == 201, key
    head = {"Authorization": f"Bearer {key.json['key']}"}
    answers = at_once(cluster, 60, lambda client, i: client.post("/v1/tasks", {"target_type": "NOOP", "delay": "1h"}, headers=head, auth=False))
    assert sum(a.status == 201 for a in answers) == 25, sorted(a.status for a in answers)
    assert {a.status for a in answers} == {201, 429}


def test_of_edits_of_one_version_on_all_nodes_one_wins(cluster, receiver):
    client = cluster.client()
    task = client.create(name="e", delay="1h", **receiver.target("/e"))
    for version in range(1, 8):
        answers = at_once(cluster, 9, lambda client, i, v=version: client.request(
            "PATCH", f"/v1/tasks/{task['id']}", {"name": f"e{v}-{i}"}, headers={"If-Match": f'"{v}"'}))
        assert sorted(a.status for a in answers)[0] == 200 and sum(a.status == 200 for a in answers) == 1, answers
        assert {a.status for a in answers} <= {200, 412, 409}
    assert client.task(task["id"])["version"] == 8


def test_nothing_fires_after_a_cancel_that_another_node_acknowledged(cluster, receiver):
    """Most are claimed already when they are cancelled, by a node that was not asked: it has to be wished back."""
    delays = [30, 60, 90, 150, 300, 600] * 6
    client = cluster.client()
    stopped = []
    for i, delay in enumerate(delays):
        task = client.create(name="c", delay=f"{delay}ms", **receiver.target(f"/c/{i}"))
        answer = client.post(f"/v1/tasks/{task['id']}/cancel")
        assert answer.status in (200, 409), answer
        if answer.status == 200:
            stopped.append((i, task["id"], now_ms()))
    client.wait_for(client.create(name="end", delay="1s", **receiver.target("/end"))["id"], "COMPLETED")
    assert len(stopped) > len(delays) // 2
    for i, task_id, stopped_ms in stopped:
        assert client.task(task_id)["status"] == "CANCELLED"
        assert not [c for c in receiver.to(f"/c/{i}") if c.received_ms > stopped_ms + 50], "it fired after the cancel was acknowledged"


def test_a_call_that_runs_on_one_node_is_aborted_by_another(cluster, receiver):
    client = cluster.client()
    hold = threading.Event()
    receiver.answer("/run", Reply(hold=hold))
    for _ in range(6):
        seen = len(receiver.to("/run"))
        task = client.create(name="run", **receiver.target("/run"))
        receiver.wait("/run", seen + 1)
        until(lambda: (a := client.post(f"/v1/tasks/{task['id']}/cancel")).status == 200 and a, 10, why="it cannot be cancelled")
        assert client.wait_for(task["id"], "CANCELLED")
    hold.set()


# ----------------------------------------------------------------------------------------------------------------------
# what one node acknowledges, the others heed


def new_key(client, tenant, node=None):
    answer = client.post("/v1/api-keys", {"tenant": tenant, "name": "k", "scopes": ["tasks:write", "tasks:read"]}, node=node)
    assert answer.status == 201, answer
    return answer.json, {"Authorization": f"Bearer {answer.json['key']}"}


def clocks(client):
    """The earliest and the latest that a node may take the time to be, in milliseconds from this machine's clock: all nodes run on it."""
    nodes = [node for node in client.get("/v1/scheduler/status").json["nodes"] if node["alive"]]
    return [sign * node["clock_error_ms"] + node["clock_offset_ms"] for node in nodes for sign in (-1, 1)]


def test_what_a_tenant_may_create_a_second_is_counted_over_all_nodes(cluster, counts):
    rate = 5
    client = cluster.client()
    assert client.post("/v1/tenants", {"name": "slow", "creates_per_second": rate}).status == 201
    _, head = new_key(client, "slow")
    body = {"target_type": "NOOP", "delay": "1h"}
    times = clocks(client)
    begin = now_ms()
    answers = at_once(cluster, 90, lambda client, i: (client.post("/v1/tasks", body, headers=head, auth=False).status, now_ms()))
    made = sorted(when for status, when in answers if status == 201)
    counts(f"{rate} creates a second on three nodes: {len(made)} of 90, {made[-1] - begin:.0f} ms from the first to the last of them")
    assert {status for status, _ in answers} == {201, 429} and len(made) >= rate
    times += clocks(client)
    apart = max(times) - min(times)  # the bucket is filled by the times of the nodes that ask
    for n, when in enumerate(made, 1):
        assert n <= rate + rate * (when - begin + apart) / 1000, f"{n} of them after {when - begin:.0f} ms, clocks {apart:.1f} ms apart"


def test_tokens_that_a_node_took_and_did_not_use_come_back(cluster):
    """One node creates fast and takes slices ahead; then another may create as much as is allowed."""
    client = cluster.client()
    first, second = cluster.nodes[:2]
    assert client.post("/v1/tenants", {"name": "fast", "creates_per_second": 100}).status == 201
    _, head = new_key(client, "fast")

    def create(node, count=1):
        return client.post("/v1/tasks/batch", [{"target_type": "NOOP", "delay": "1h"}] * count, headers=head, auth=False, node=node)

    assert {create(first).status for _ in range(20)} == {201}
    until(lambda: create(second, 100).status == 201, why="what the first node did not use is lost for good")


def test_a_change_holds_on_every_node_once_it_is_answered(cluster):
    """At once, unless the answer says that a node has not confirmed it, which happens on a busy machine."""
    client = cluster.client()
    unconfirmed = 0

    def change(method, path, body, node, others, head, status):
        """Whether the other nodes answer the key so after the change."""
        nonlocal unconfirmed
        answer = client.request(method, path, body, node=node)
        assert answer.status in (200, 204)

        def holds():
            return [client.get("/v1/tasks", headers=head, auth=False, node=other).status for other in others] == [status] * len(others)

        if answer.headers.get("belfry-applied") != "some-nodes":
            return holds()
        unconfirmed += 1
        return until(holds)

    for n in range(12):
        here, *others = cluster.nodes[n % 3:] + cluster.nodes[:n % 3]
        tenant = f"/v1/tenants/t{n}"
        assert client.post("/v1/tenants", {"name": f"t{n}"}, node=here).status == 201
        key, head = new_key(client, f"t{n}", node=others[0])
        assert all(client.get("/v1/tasks", headers=head, auth=False, node=node).status == 200 for node in cluster.nodes)
        assert change("PATCH", tenant, {"disabled": True}, here, others, head, 403), "a disabled tenant's key still opens"
        assert change("PATCH", tenant, {"disabled": False}, others[0], (here, others[1]), head, 200)
        assert change("DELETE", f"/v1/api-keys/{key['id']}?tenant=t{n}", None, here, others, head, 401), "a revoked key still opens"
    assert unconfirmed < 12, "nodes that have little to do confirm in time"


def test_a_limit_that_was_answered_holds_for_what_is_made_next(cluster, receiver):
    client = cluster.client()
    receiver.answer("/one", Reply(takes_s=0.02))
    for n in range(5):
        queue = f"q{n}"
        assert client.request("PUT", f"/v1/queues/{queue}", {"max_concurrent": 1}).status == 200
        made = make_tasks(cluster, receiver, "/one", 30, queue=queue)
        all_done(client, made)
        calls = [c for c in receiver.to("/one") if c.id in set(made)]
        assert most_at_once(calls) == 1


def test_a_node_that_is_stopped_holds_up_no_change(cluster, counts):
    client = cluster.client()
    here, victim = cluster.nodes[:2]
    victim.signal(signal.SIGSTOP)
    try:
        begin = now_ms()
        answer = client.request("PUT", "/v1/queues/q", {"max_concurrent": 1}, node=here)
        took_ms = now_ms() - begin
    finally:
        victim.signal(signal.SIGCONT)
    counts(f"a change while one of three nodes is stopped: {took_ms} ms")
    assert answer.status == 200 and answer.headers["belfry-applied"] == "some-nodes"
    assert took_ms < 2000
