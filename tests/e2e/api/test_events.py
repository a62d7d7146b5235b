"""GET /v1/events and belfry watch: who watches sees what happens to its tasks and to no others, goes on where it was, and is never told
more than it can read."""

import json
import os
import re
import signal
import subprocess

import pytest

from conftest import BUILD
from events import Events
from server import at, now_ms, until
from test_notifications import add, fail, told
from test_tenants import Tenant

pytestmark = pytest.mark.cluster
NOOP = {"target_type": "NOOP"}
FAR = {**NOOP, "delay": "1d"}


def metric(client, name, node):
    return float(re.search(rf"^{name} (\S+)$", client.get("/metrics", node=node).body.decode(), re.M)[1])


# ----------------------------------------------------------------------------------------------------------------------
# what is told


def test_a_task_is_followed_from_its_creation_to_its_end(server, client):
    with Events(server) as events:
        task = client.create(**NOOP, queue="mail:eu")
        seen = {e["status"]: e for e in events.saw(task["id"], "SCHEDULED", "RUNNING", "COMPLETED")}
        first, last = seen["SCHEDULED"], seen["COMPLETED"]
        assert first == {"id": task["id"], "parent_id": None, "name": None, "queue": "mail:eu", "status": "SCHEDULED", "attempt": 0, "error": None, "version": 1,
                         "at": first["at"]}
        assert (last["attempt"], last["version"], last["queue"]) == (1, 1, "mail:eu")
        names = ("created", "started", "completed", "failed", "retried")  # each node tells its own
        until(lambda: [events.counts()[name] for name in names] == [1, 1, 1, 0, 0], why=lambda: events.counts())
        until(lambda: events.counts()["running"] == 0 and events.counts()["due"] == 0, why=lambda: events.counts())


def test_retries_and_failures_are_told(server, client):
    with Events(server) as events:
        retry = {"max_attempts": 2, "base_delay_ms": 1, "jitter": "NONE"}
        task = client.create(name="nächtlich: " + 99 * "x", target_config={"url": "http://127.0.0.1:9/"}, retry=retry)
        events.saw(task["id"], "SCHEDULED", "RUNNING", "SCHEDULED", "RUNNING", "FAILED")
        attempts = [0, 1, 1, 2, 2] if events.has_starts else [0, 1, 2]
        until(lambda: sorted(e["attempt"] for e in events.tasks(task["id"])) == attempts, why=lambda: events.tasks())
        until(lambda: (events.counts()["failed"], events.counts()["retried"]) == (1, 1), why=lambda: events.counts())
        seen = events.tasks(task["id"])  # of all nodes, and not too long
        assert {e["name"] for e in seen} == {"nächtlich: " + 88 * "x" + "…"}, seen
        assert sorted((e["status"], e["attempt"], "connect" in (e["error"] or "").lower()) for e in seen if e["status"] != "RUNNING") == [
            ("FAILED", 2, True), ("SCHEDULED", 0, False), ("SCHEDULED", 1, True)], seen
        assert all(e["error"] is None for e in seen if e["status"] == "RUNNING")


def test_what_users_do_is_told(server, client):
    with Events(server) as events:
        task = client.create(**FAR)["id"]
        events.saw(task, "SCHEDULED")
        client.act(task, "pause")
        events.saw(task, "PAUSED")
        client.act(task, "resume")
        events.saw(task, "SCHEDULED")
        client.act(task, "cancel")
        events.saw(task, "CANCELLED")


def test_occurrences_name_their_recurring_task(server, client):
    with Events(server) as events:
        task = client.create(**NOOP, interval_seconds=1)["id"]
        until(lambda: [e for e in events.tasks() if e["parent_id"] == task and e["status"] == "COMPLETED"], why=lambda: events.tasks())


def test_runs_maps_and_waits_count_as_started_when_they_begin(server, client):
    with Events(server) as events:
        noop = {"target_type": "NOOP"}
        made = client.post("/v1/workflows", {"definition": {"steps": [
            {"name": "a", **noop}, {"name": "m", "map": {"over": [1, 2]}, **noop}, {"name": "w", "await": {"signal": "go"}}]}}).json["id"]
        started = 1 + 1 + (1 + 2) + 1  # the run, the step, the map with its items, the wait
        until(lambda: events.counts()["started"] == started, why=lambda: events.counts())
        assert events.counts()["completed"] < started, "the wait and the run have begun, and are not over"
        assert client.post(f"/v1/workflows/{made}/signals/go", {}).status == 200
        until(lambda: events.counts()["completed"] == started, why=lambda: events.counts())
        assert events.counts()["started"] == started


def test_leased_tasks_are_told(server, client):
    with Events(server) as events:
        task = client.create(target_type="WORKER", queue="work")["id"]
        lease = until(lambda: client.post("/v1/leases", {"queue": "work", "wait_seconds": 5}).json["leases"])[0]
        events.saw(task, "SCHEDULED", "RUNNING")
        assert client.post(f"/v1/leases/{lease['id']}/complete", {}).status == 200
        events.saw(task, "SCHEDULED", "RUNNING", "COMPLETED")
        until(lambda: (events.counts()["started"], events.counts()["completed"]) == (1, 1), why=lambda: events.counts())
        failing = client.create(target_type="WORKER", queue="work", name="hard", retry={"max_attempts": 1})["id"]
        lease = until(lambda: client.post("/v1/leases", {"queue": "work", "wait_seconds": 5}).json["leases"])[0]
        assert client.post(f"/v1/leases/{lease['id']}/fail", {"error": "out of paper"}).status == 200
        events.saw(failing, "SCHEDULED", "RUNNING", "FAILED")
        assert {(e["name"], e["error"]) for e in events.tasks(failing) if e["status"] == "FAILED"} == {("hard", "out of paper")}


def test_jobs_are_told(server, client):
    with Events(server) as events:
        for _ in range(3):
            client.create(**FAR)
        job = client.post("/v1/tasks/bulk", {"action": "pause", "filter": {"all": True}}).json["id"]
        until(lambda: [j for j in events.of("job") if j["id"] == job and j["state"] == "DONE"], why=lambda: events.events)
        last = events.of("job")[-1]
        assert (last["kind"], last["action"], last["total"], last["done"], last["failed"]) == ("bulk", "pause", 3, 3, 0)


def test_incidents_are_told_to_those_who_may_read_them(server, client, receiver):
    setting = add(client, receiver)
    key = client.post("/v1/api-keys", {"name": "tasks", "scopes": ["tasks:read"]}).json["key"]
    other = Tenant(server, "acme", ["tasks:read", "notifications:read"])
    with Events(server) as events, Events(server, key) as tasks, Events(server, other.key["key"]) as acme:
        fail(client, receiver)
        told(receiver)
        opened = until(lambda: events.of("incident"), why=lambda: events.events)[0]
        assert (opened["setting"], opened["kind"], opened["state"], opened["count"]) == (setting["id"], "FAILURE", "OPEN", 1)
        client.post(f"/v1/incidents/{opened['id']}/mute", {"for": "1h"})
        client.post(f"/v1/incidents/{opened['id']}/ack")
        client.request("PATCH", f"/v1/notification-settings/{setting['id']}", {"enabled": False})
        client.post(f"/v1/incidents/{opened['id']}/mute", {"for": "2h"})  # it is looked at
        client.post(f"/v1/incidents/{opened['id']}/unmute")
        wanted = ["ACKNOWLEDGED", "CLOSED", "MUTED", "MUTED", "OPENED", "TOLD", "UNMUTED"]  # of several nodes, in any order
        until(lambda: sorted(i["change"] for i in events.of("incident")) == wanted, why=lambda: events.of("incident"))
        assert not tasks.of("incident") and not acme.of("incident") and tasks.tasks()


# ----------------------------------------------------------------------------------------------------------------------
# whose


def test_a_tenant_sees_its_own_tasks_and_no_nodes(server, client):
    acme, zoo = Tenant(server, "acme", ["tasks:read", "tasks:write"]), Tenant(server, "zoo", ["tasks:write"])
    with Events(server, acme.key["key"]) as events, Events(server) as own, Events(server, query="?tenant=acme") as operator:
        theirs, ours = zoo.create().json["id"], client.create(**FAR)["id"]
        task = acme.create().json["id"]
        for reader in (events, operator):
            reader.saw(task, "SCHEDULED")
            until(lambda reader=reader: reader.counts()["created"] == 1, why=lambda reader=reader: reader.counts())
            assert {e["id"] for e in reader.tasks()} == {task}
        own.saw(ours, "SCHEDULED")
        assert {e["id"] for e in own.tasks()} == {ours} and theirs
    assert Events(server, zoo.key["key"]).status == 403  # it may not read tasks
    assert Events(server, acme.key["key"], "?tenant=zoo").status == 404
    assert Events(server, acme.key["key"], f"?task={ours}").status == 404
    assert Events(server, query="?tenant=nobody").status == 404
    assert Events(server, query="?colour=red").status == 400
    assert Events(server, query="?queue=a%20b").status == 400


def test_a_filter_shows_one_queue_or_one_task(server, client):
    task = client.create(**NOOP, interval_seconds=3600)["id"]
    with Events(server, query="?queue=mail") as mail, Events(server, query=f"?task={task}") as one:
        other, letter = client.create(**FAR)["id"], client.create(**FAR, queue="mail")["id"]
        client.post("/v1/tasks/bulk", {"action": "pause", "filter": {"queue": "mail"}})
        mail.saw(letter, "SCHEDULED", "PAUSED")
        client.act(task, "pause")
        one.saw(task, "PAUSED")
        assert {e["id"] for e in mail.tasks()} == {letter} and other
        assert all(task in (e["id"], e["parent_id"]) for e in one.tasks())
        assert not mail.of("job") and not one.of("job")


# ----------------------------------------------------------------------------------------------------------------------
# how it goes on, and how it ends


def test_a_reader_that_comes_back_has_missed_nothing(server, client):
    node = server.nodes[0]
    with Events(server) as events:
        first = client.create(**FAR)["id"]
        events.saw(first, "SCHEDULED")
    missed = [client.create(**FAR)["id"] for _ in range(5)]
    with Events(server) as beside:
        last = client.create(**FAR)["id"]
        beside.saw(last, "SCHEDULED")
    with Events(server, last_id=events.last_id) as again:
        again.saw(last, "SCHEDULED")
        assert [e["id"] for e in again.tasks()] == [*missed, last] or set(missed) <= {e["id"] for e in again.tasks()}
        assert first not in {e["id"] for e in again.tasks()}
        assert not again.of("gap")


def test_a_place_that_is_not_there_is_a_gap(server, client):
    with Events(server) as events:
        node = events.last_id.partition(".")[0]
    for last_id in ("0123456789abcdef.1", "x", "1", ".", f"{node}.999", f"{node}.-1", f"{node}.x"):
        with Events(server, last_id=last_id) as again:
            assert [name for name, _, _ in again.events][0] == "gap", last_id
    with Events(server, last_id="x") as again:
        task = client.create(**FAR)["id"]
        again.saw(task, "SCHEDULED")


def test_more_than_a_reader_can_follow_is_folded(server, client):
    with Events(server) as events, Events(server, query="?queue=rare") as rare:
        bodies = [{**FAR, "queue": "many"} for _ in range(1000)] + [{**FAR, "queue": "rare"}]
        before = metric(client, "belfry_events_folded_total", server.nodes[0])
        assert client.post("/v1/tasks/batch", bodies).status == 201
        until(lambda: len(events.tasks()) + events.folded() >= 1001, why=lambda: (len(events.tasks()), events.folded()))
        assert 0 < len(events.tasks()) <= 150 and len(events.tasks()) + events.folded() == 1001
        until(lambda: events.counts()["created"] == 1001, why=lambda: events.counts())
        assert metric(client, "belfry_events_folded_total", server.nodes[0]) - before >= events.folded()
        if len(server.nodes) == 1:  # another node may not tell it
            until(lambda: len(rare.tasks()) == 1, why=lambda: rare.events)
            assert not rare.folded()


def test_a_stream_ends_with_its_key(server):
    acme = Tenant(server, "acme", ["tasks:read"])
    with Events(server, acme.key["key"]) as events, Events(server) as other:
        assert acme.client.request("DELETE", f"/v1/api-keys/{acme.key['id']}?tenant=acme").status == 204
        name, data, _ = events.ended()
        assert (name, data["reason"]) == ("end", "KEY_REVOKED")
        assert not other.over.is_set()
    assert Events(server, acme.key["key"]).status == 401


def test_a_stream_ends_when_its_key_expires_or_its_tenant_is_disabled(server):
    acme = Tenant(server, "acme", ["tasks:read"])
    short = acme.new_key(["tasks:read"], expires_at=at(now_ms() + 1500))
    with Events(server, acme.key["key"]) as events, Events(server, short["key"]) as brief:
        assert acme.client.request("PATCH", "/v1/tenants/acme", {"disabled": True}).status == 200
        assert events.ended()[1]["reason"] == "TENANT_DISABLED"
        assert brief.ended()[1]["reason"] in ("TENANT_DISABLED", "KEY_EXPIRED")


def test_a_drain_ends_streams_first_and_says_when_to_come_back(server):
    node = server.nodes[0]
    with Events(server) as events:
        node.signal(signal.SIGTERM)
        name, data, _ = events.ended()
        assert (name, data["reason"]) == ("end", "SHUTDOWN") and 1000 <= events.retry_ms <= 5000
    assert node.ended() == 0


def test_a_key_has_ten_streams(server, client):
    node = server.nodes[0]
    streams = [Events(server, waits=False) for _ in range(10)]
    until(lambda: metric(client, "belfry_event_streams", node) == 10)
    refused = Events(server)
    assert refused.status == 429 and "10 streams" in refused.problem["detail"]
    other = Tenant(server, "acme", ["tasks:read"])
    with Events(server, other.key["key"]) as more:
        assert more.status == 200
    for stream in streams:
        stream.close()
    until(lambda: metric(client, "belfry_event_streams", node) == 0)
    with Events(server) as again:
        assert again.status == 200


@pytest.mark.standalone("a node has so many streams, whatever the others have")
def test_a_tenant_that_fills_a_node_keeps_no_other_from_watching(server, client):
    acme, zoo = Tenant(server, "acme", ["tasks:read"]), Tenant(server, "zoo", ["tasks:read"])
    keys = [client.post("/v1/api-keys", {"name": f"k{i}", "scopes": ["tasks:read"], "tenant": "acme"}).json["key"] for i in range(10)]
    streams = [Events(server, key, waits=False) for key in keys for _ in range(10)]
    for stream in streams:
        stream.wait()
    refused = Events(server, acme.key["key"])
    assert refused.status == 503 and "100 streams" in refused.problem["detail"]
    with Events(server, zoo.key["key"]) as theirs, Events(server) as ours:
        assert theirs.status == ours.status == 200
        until(lambda: sum(stream.over.is_set() for stream in streams) == 2)
        assert {stream.of("end")[0]["reason"] for stream in streams if stream.over.is_set()} == {"ROOM"}
    for stream in streams:
        stream.close()


def test_head_and_accept(client):
    head = client.request("HEAD", "/v1/events")
    assert head.status == 200 and head.headers["content-type"] == "text/event-stream" and not head.body
    assert client.get("/v1/events", headers={"Accept": "application/json"}).status == 406
    assert client.get("/v1/events", headers={"Accept": "text/event-stream"}).status == 200


# ----------------------------------------------------------------------------------------------------------------------
# belfry watch


class Watch:
    """`belfry watch` as a process."""

    def __init__(self, node, *arguments, key=None):
        env = {**os.environ, "BELFRY_SERVER": node.url, "BELFRY_KEY": key or node.key}
        self.out, self.lines = None, []
        self.process = subprocess.Popen([BUILD / "belfry", "watch", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True)

    def until(self, pattern):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if re.search(pattern, line):
                return line
        raise AssertionError(f"{pattern} was not printed: {self.lines}, {self.process.stderr.read()}")

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.ended()

    def ended(self):
        out, err = self.process.communicate(timeout=60)
        self.lines += out.splitlines()
        return self.process.returncode, err


def test_watch_prints_a_line_for_each_event(server, client, receiver):
    watch = Watch(server.nodes[0])
    watch.until(r"Z +counts +created 0  started 0  completed 0  failed 0  retried 0  running 0")
    task = client.create(**NOOP)["id"]
    line = watch.until(rf"Z +task +COMPLETED +{task}  default  attempt 1$")
    assert "\033" not in line
    watch.until(r"counts .*completed 1")
    add(client, receiver)
    task = client.create(name="night shift", target_config={"url": "http://127.0.0.1:9/"}, retry={"max_attempts": 1})["id"]
    watch.until(rf"Z +task +FAILED +{task}  'night shift'  default  attempt 1  .*onnect.*$")
    watch.until(r"Z +incident +OPENED +[0-9a-f-]{36}  FAILURE  \w+  1 times$")
    assert watch.stop() == (0, "")
    starts = {line.index(line.split()[2]) for line in watch.lines}
    assert len(starts) == 1 and sum(" counts " in line for line in watch.lines) <= 8, watch.lines


def test_watch_prints_json_and_filters(server, client):
    name, task = "report", client.create(**FAR, name="report")["id"]
    watch = Watch(server.nodes[0], "--json", "--task", name)
    watch.until('"counts"')
    client.create(**FAR)
    client.act(task, "pause")
    line = watch.until("PAUSED")
    assert watch.stop(signal.SIGTERM) == (0, "")
    said = json.loads(line)
    assert said["event"] == "task" and said["data"]["id"] == task and re.fullmatch(r"[0-9a-f]{16}\.\d+", said["id"])
    assert {json.loads(line)["data"].get("id", task) for line in watch.lines} == {task}


@pytest.mark.standalone("it comes back under its address")
def test_watch_connects_again_and_says_so(make_server):
    server = make_server()
    server.listen = f"127.0.0.1:{server.port}"
    watch = Watch(server)
    watch.until("counts")
    server.stop()
    server.start()
    watch.until(" gap ")
    task = server.client().create(**NOOP)["id"]
    watch.until(f"COMPLETED +{task}")
    code, err = watch.stop()
    assert code == 0 and "connecting again" in err and "connected again" in err, err


def test_watch_ends_with_its_key_or_without_a_server(server, belfry):
    acme = Tenant(server, "acme", ["tasks:read"])
    watch = Watch(server.nodes[0], key=acme.key["key"])
    watch.until("counts")
    assert acme.client.request("DELETE", f"/v1/api-keys/{acme.key['id']}?tenant=acme").status == 204
    watch.until("the API key was revoked")
    assert watch.ended()[0] == 1
    done = belfry("watch", "--server", "http://127.0.0.1:9", "--key", "bf_x")
    assert done.code == 3 and "cannot reach" in done.err
