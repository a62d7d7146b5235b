"""Dead-man checks: a task that does not succeed in time is told, whatever keeps it from running; and who is told of a task by its `notify`."""

import contextlib
import json
import sqlite3
import threading

import pytest

from cluster import LONG
from notify_chaos import NodeKills
from server import Reply, at, to_ms, until
from test_api import assert_problem
from test_notifications import add, fail, incidents, notifications, told

MISSED = {"on_failure": False, "on_missed": True, "on_recovered": True}


def checks(client):
    return {c["task_id"]: c for c in client.all("/v1/checks", "checks")}


def incident(client):
    """The one of missed deadlines; None: there is none."""
    return next((i for i in incidents(client) if i["cause"] == "check"), None)


def is_planned(server):
    """Whether the deadline of the only check is in the store; the API computes it until then."""
    with contextlib.closing(sqlite3.connect(server.data_dir / "belfry.db", timeout=30)) as database:
        docs = [json.loads(row[0] or "{}") for row in database.execute("SELECT doc FROM incident_records")]
    return any(doc.get("deadline_ms") for doc in docs)


def missed(client, count):
    """The tasks that missed a deadline, by their ids, with the sentence about each."""
    def look():
        found = incident(client)
        return found and found["count"] >= count and {t["id"]: t["error"] for t in found["tasks"]}
    return until(look, 30, why=lambda: (incidents(client), checks(client)))


@pytest.mark.cluster(when="always")
def test_a_task_that_does_not_succeed_in_time_is_told_whatever_the_reason(make_server, receiver, clock):
    server = make_server(env=clock.env)
    client = server.client()
    add(client, receiver, **MISSED)
    receiver.answer("/fails", Reply(400))
    job = {"interval_seconds": 1, "retry": {"max_attempts": 1}, "expect": {"within_seconds": 2}}
    fails = client.create(**job, **receiver.target("/fails"))["id"]
    paused = client.create(**job, **receiver.target("/never"), name="paused")["id"]
    client.act(paused, "pause")
    queue = client.create(**job, **receiver.target("/never"), queue="shut")["id"]
    assert client.request("PATCH", "/v1/queues/shut", {"paused": True}).status in (200, 201)
    nobody = client.create(delay="0s", target_type="WORKER", expect={"within_seconds": 2})["id"]
    at_ease = {**job, "expect": {"within_seconds": 60}}
    well = client.create(**at_ease, **receiver.target("/ok"))["id"]
    assert client.request("PUT", "/v1/workflow-definitions/flow", {"steps": [{"name": "a", "target_type": "NOOP"}]}).status == 201
    flow = client.create(**at_ease, target_type="WORKFLOW", target_config={"workflow": "flow"})["id"]
    ended = client.create(**job, **receiver.target("/ok"))["id"]
    client.act(ended, "cancel")
    clock.jump(8000)
    why = missed(client, 4)
    assert set(why) == {fails, paused, queue, nobody}
    assert why[fails].endswith("did not succeed: HTTP 400") and why[paused].endswith("the task is paused"), why
    assert why[queue].endswith("its queue 'shut' is paused") and why[nobody].endswith("it has not run yet"), why
    found = incident(client)
    assert (found["kind"], found["state"], found["count"], found["recurring_failing"]) == ("MISSED", "OPEN", 4, 4)
    shown = checks(client)
    assert {i: c["state"] for i, c in shown.items()} == {fails: "LATE", paused: "LATE", queue: "LATE", nobody: "LATE", well: "OK", flow: "OK"}
    assert all(shown[i]["next_deadline"] > shown[i]["last_success"] for i in (well, flow)), shown
    assert {c["task_id"] for c in client.get("/v1/checks?state=LATE").json["checks"]} == {fails, paused, queue, nobody}
    assert {c["task_id"] for c in client.get("/v1/checks?state=OK").json["checks"]} == {well, flow}
    assert shown[paused]["missed_at"] and shown[paused]["next_deadline"] is None and shown[paused]["name"] == "paused"
    receiver.answer("/fails", Reply(200))
    client.act(paused, "resume")
    client.request("PATCH", "/v1/queues/shut", {"paused": False})
    client.act(nobody, "cancel")
    until(lambda: ("incident.closed", "check") in [(m["type"], m["data"]["cause"]) for m in told(receiver)], why=lambda: incidents(client))
    until(lambda: {c["state"] for c in checks(client).values()} == {"OK"}, why=lambda: checks(client))
    assert (incident(client)["state"], incident(client)["count"]) == ("CLOSED", 4)


@pytest.mark.standalone("a clock is set")
def test_a_task_that_misses_its_deadline_later_is_told_though_the_first_was_acknowledged(make_server, receiver, clock):
    server = make_server(env=clock.env)
    client = server.client()
    add(client, receiver, **MISSED)
    made = []
    for n in range(2):
        made.append(client.create(delay="0s", target_type="WORKER", expect={"within_seconds": 2}, name=f"job-{n}")["id"])
        until(lambda: checks(client).get(made[n], {}).get("next_deadline"), why="the check has no deadline")
        clock.jump(13_000)
        message = told(receiver, n + 1)[n]
        assert (message["type"], message["data"]["tasks"][0]["id"]) == (("incident.opened", "incident.repeated")[n], made[n])
        assert incident(client)["acknowledged_at"] is None
        assert client.post(f"/v1/incidents/{message['data']['incident']}/ack", {}).status == 200
    assert incident(client)["count"] == 2


@pytest.mark.standalone("a clock is set")
def test_of_a_task_that_runs_the_reason_says_since_when(make_server, receiver, clock):
    client = make_server(env=clock.env).client()
    add(client, receiver, **MISSED)
    body = {"target_type": "WORKER", "expect": {"within_seconds": 2}}
    tasks = {"once": client.create(delay="0s", queue="once", **body)["id"], "often": client.create(cron_expression="0 0 1 1 *", queue="often", **body)["id"]}
    run = client.act(tasks["often"], "run-now")["occurrence_id"]
    for queue in tasks:
        until(lambda: client.post("/v1/leases", {"queue": queue, "wait_seconds": 5, "lease_seconds": 600}).json["leases"], why=lambda: tasks)
    clock.jump(13_000)
    why = missed(client, 2)
    for queue, leased in (("once", tasks["once"]), ("often", run)):
        assert why[tasks[queue]].endswith(f"): it runs since {client.task(leased)['started_at']}"), why


@pytest.mark.standalone("a clock is set")
def test_a_task_that_joins_while_the_message_is_made_is_told_once(make_server, receiver, clock):
    client = make_server(env=clock.env).client()
    add(client, receiver, group_wait="30s", **MISSED)
    add(client, receiver, path="/later")

    def late(within):
        task = client.create(delay="0s", target_type="WORKER", expect={"within_seconds": within})["id"]
        until(lambda: checks(client).get(task, {}).get("next_deadline"), why="the check has no deadline")
        return task
    first = late(2)
    clock.jump(13_000)
    until(lambda: incident(client), why=lambda: checks(client))
    joins = late(15)
    clock.jump(40_000)  # the message is made, and then the check is judged
    message, = told(receiver)
    assert (message["type"], [t["id"] for t in message["data"]["tasks"]]) == ("incident.opened", [joins, first])
    until(lambda: [(n["state"], n["task_id"]) for n in notifications(client)] == [("SENT", joins)], why=lambda: notifications(client))
    clock.jump(60_000)
    fail(client, receiver)
    told(receiver, path="/later")  # the incident was looked at
    for task in (first, joins):
        client.act(task, "cancel")
    clock.jump(60_000)
    assert [m["type"] for m in told(receiver, 2)] == ["incident.opened", "incident.closed"]


@pytest.mark.standalone("a cluster refuses such a clock")
def test_an_incident_ends_when_a_late_task_is_not_expected_any_more(make_server, receiver, clock):
    server = make_server(env=clock.env)
    client = server.client()
    add(client, receiver, **MISSED)
    task = client.create(delay="0s", target_type="WORKER", expect={"within_seconds": 2})["id"]
    clock.jump(13_000)
    told(receiver)
    assert client.request("PATCH", f"/v1/tasks/{task}", {"expect": None}).status == 200
    until(lambda: incident(client)["state"] == "CLOSED", why=lambda: incidents(client))
    assert incident(client)["recovered"] is False


@pytest.mark.standalone("a clock is set to another day")
def test_success_by_a_time_of_day_is_judged_each_day(make_server, receiver, clock):
    server = make_server(env=clock.env)
    client = server.client()
    add(client, receiver, **MISSED)
    midnight = clock.now_ms() // 86_400_000 * 86_400_000 + 86_400_000
    client.request("PUT", "/v1/calendars/all", {"excluded_weekdays": []})
    task = client.create(cron_expression="0 2 * * *", calendar="all", expect={"success_by": "06:00"}, **receiver.target("/job"))["id"]
    other = client.create(cron_expression="0 2 * * *", expect={"success_by": "06:00", "days": "*"}, **receiver.target("/other"))["id"]
    deadline = midnight + 6 * 3_600_000
    first = until(lambda: checks(client).get(task, {}).get("next_deadline"), why="the check has no deadline")
    assert first in (at(deadline), at(deadline - 86_400_000))  # of the day of its next run
    client.act(task, "pause")
    clock.jump(4 * 86_400_000)
    assert task in missed(client, 1)
    shown = checks(client)[task]
    assert (shown["state"], shown["missed_at"]) == ("LATE", first) and shown["next_deadline"] > at(clock.now_ms())
    until(lambda: checks(client)[other]["last_success"], why="the other task did not run")


@pytest.mark.standalone("the only process is killed")
def test_a_kill_between_deadline_and_hit_loses_and_repeats_nothing(make_server, receiver, clock):
    server = make_server(env=clock.env)
    client = server.client()
    add(client, receiver, **MISSED)
    task = client.create(delay="0s", target_type="WORKER", expect={"within_seconds": 2})["id"]
    until(lambda: is_planned(server), why="nobody has looked at the check")
    server.kill()
    server.start(env={**clock.env, "BELFRY_FAILPOINT": "before_fold:kill"})
    clock.jump(13_000)
    server.ended()
    server.launch(env={**clock.env, "BELFRY_FAILPOINT": "after_fold:kill"})
    server.ended()
    server.start(env=clock.env)
    client = server.client()
    assert set(missed(client, 1)) == {task}
    clock.jump(60_000)
    until(lambda: [n["state"] for n in notifications(client)] == ["SENT"], why=lambda: notifications(client))
    assert [i["count"] for i in incidents(client)] == [1] and len(receiver.to("/told")) == 1
    (held,) = client.post("/v1/leases", {"queue": "default", "wait_seconds": 20}).json["leases"]
    assert client.post(f"/v1/leases/{held['id']}/complete", {}).status == 200  # a late success
    closed = told(receiver, 2)[1]
    assert closed["type"] == "incident.closed" and until(lambda: incident(client)["recovered"], why=lambda: incidents(client))
    assert task not in checks(client)


@pytest.mark.standalone("nobody sets the clock of a cluster")
def test_a_clock_that_jumps_while_a_message_is_sent_sends_it_once(make_server, receiver, clock):
    client = make_server(env=clock.env).client()
    add(client, receiver, **MISSED)
    held = threading.Event()
    receiver.answer("/told", Reply(200, hold=held))
    client.create(delay="0s", target_type="WORKER", expect={"within_seconds": 60})
    until(lambda: checks(client))
    clock.jump(70_000)
    missed(client, 1)
    clock.jump(60_000)
    receiver.wait("/told")
    clock.jump(60_000)
    client.create(delay="0s", target_type="WORKER", expect={"within_seconds": 60})
    until(lambda: len(checks(client)) == 2)
    clock.jump(70_000)
    missed(client, 2)  # so the notifier has looked for what is due
    held.set()
    until(lambda: "SENT" in [n["state"] for n in notifications(client)], why=lambda: notifications(client))
    calls = receiver.to("/told")
    assert len({c.headers["webhook-id"] for c in calls}) == len(calls)


@pytest.mark.standalone("it copies the embedded store")
def test_deadlines_that_passed_while_a_backup_was_away_are_one_hit_each(make_server, receiver, clock, belfry, tmp_path):
    server = make_server(env=clock.env)
    client = server.client()
    add(client, receiver, **MISSED)
    within = client.create(delay="0s", target_type="WORKER", expect={"within_seconds": 60})["id"]
    daily = client.create(interval_seconds=3600, target_type="WORKER", expect={"success_by": "06:00"})["id"]
    until(lambda: all(checks(client).get(task, {}).get("next_deadline") for task in (within, daily)), why=lambda: checks(client))
    assert belfry("backup", tmp_path / "copy.db", "--data-dir", server.data_dir).code == 0
    server.kill()
    clock.jump(3 * 86_400_000)
    copy = make_server(start=False, env=clock.env)
    assert belfry("restore", tmp_path / "copy.db", "--data-dir", copy.data_dir).code == 0
    client = copy.start().client()
    assert set(missed(client, 2)) == {within, daily}
    assert checks(client)[daily]["next_deadline"] > at(clock.now_ms())
    clock.jump(60_000)
    of_cause = lambda cause: [n["state"] for n in notifications(client) if n["cause"] == cause]
    until(lambda: of_cause("check") == of_cause("skipped") == ["SENT"], why=lambda: notifications(client))  # the hourly runs of three days, too
    assert incident(client)["count"] == 2 and len(receiver.to("/told")) == 2


@pytest.mark.skipif(not LONG, reason="nobody sets the clock of a cluster: the deadlines take 20 s")
def test_kills_of_all_nodes_in_turn_judge_each_check_once(make_server, topology, receiver, counts):
    """Whoever judges a check dies before or after it is written, the leader among them."""
    system = make_server()
    client = system.client()
    add(client, receiver, **MISSED)
    receiver.answer("/fails", Reply(400))
    tasks = {client.create(interval_seconds=2, retry={"max_attempts": 1}, expect={"within_seconds": 1 + n}, **receiver.target("/fails"))["id"]
             for n in range(10)}
    until(lambda: all(checks(client).get(task, {}).get("next_deadline") for task in tasks), why=lambda: checks(client))
    kills = NodeKills(system, 20, [("before_fold", 1), ("after_fold", 1)])
    kills.arm_all()
    while kills.count < kills.wanted:
        until(lambda: any(not node.runs() for node in system.nodes), why="nobody judges")
        kills.revive()
    kills.end()
    assert set(missed(client, 10)) == tasks
    receiver.answer("/fails", Reply(200))
    messages = lambda kind: {c.headers["webhook-id"]: m["data"]["count"] for c, m in zip(receiver.to("/told"), told(receiver))
                             if m["type"] == kind and m["data"]["cause"] == "check"}  # runs are skipped while all nodes are dead, too
    until(lambda: messages("incident.closed") and messages("incident.opened"), why=lambda: incidents(client))
    opened, (closed,) = messages("incident.opened"), messages("incident.closed").values()
    counts(f"checks, {topology}: {kills.count} kills ({dict(kills.done)}), {len(tasks)} deadlines, {closed} hits, {len(opened)} message")
    assert (closed, len(opened)) == (10, 1), told(receiver)


def test_a_calendar_that_changes_moves_the_deadline(client, receiver, clock):
    exclude = lambda *days: client.request("PUT", "/v1/calendars/days", {"excluded": list(days)})
    tomorrow, later = (at(clock.now_ms() + n * 86_400_000)[:10] for n in (1, 2))
    deadline = lambda: checks(client).get(task, {}).get("next_deadline")
    assert exclude(tomorrow).status == 201
    task = client.create(cron_expression="0 0 * * *", calendar="days", expect={"success_by": "06:00"}, **receiver.target("/job"))["id"]
    until(lambda: deadline() == f"{later}T06:00:00.000Z", why=lambda: checks(client))
    assert exclude(later).status == 200
    until(lambda: deadline() == f"{tomorrow}T06:00:00.000Z", why=lambda: checks(client))
    assert exclude(tomorrow).status == 200
    until(lambda: deadline() == f"{later}T06:00:00.000Z", why=lambda: checks(client))


def test_an_expectation_is_changed_removed_and_ends_with_its_task(client, receiver):
    task = client.create(interval_seconds=3600, expect={"success_by": "06:00", "days": "MON-FRI"}, time_zone="Europe/Berlin", **receiver.target("/x"))
    assert task["expect"] == {"success_by": "06:00", "days": "MON-FRI"}
    path = f"/v1/tasks/{task['id']}"
    deadline = checks(client)[task["id"]]["next_deadline"]
    assert client.request("PATCH", path, {"time_zone": "Asia/Tokyo"}).json["expect"] == task["expect"]
    assert deadline and checks(client)[task["id"]]["next_deadline"] not in (None, deadline)
    assert client.request("PATCH", path, {"expect": {"within_seconds": 7200}}).json["expect"] == {"within_seconds": 7200}
    shown = checks(client)[task["id"]]  # at once, and not the deadline of before; the first run may have succeeded by then
    changed = client.task(task["id"])["updated_at"]
    assert shown["next_deadline"] == at(max(to_ms(changed), to_ms(shown["last_success"] or changed)) + 7_200_000), (shown, changed)
    assert "expect" not in client.request("PATCH", path, {"expect": None}).json
    assert task["id"] not in checks(client)
    assert client.request("PATCH", path, {"expect": {"within_seconds": 60}}).status == 200
    assert checks(client)[task["id"]]["state"] == "OK"
    assert client.request("DELETE", path).status in (200, 204)
    assert task["id"] not in checks(client)


BAD = {
    "both": ({"interval_seconds": 60, "expect": {"success_by": "06:00", "within_seconds": 5}}, "expect.within_seconds"),
    "one-time": ({"delay": "1h", "expect": {"success_by": "06:00"}}, "expect.success_by"),
    "time": ({"interval_seconds": 60, "expect": {"success_by": "25:00"}}, "expect.success_by"),
    "days": ({"interval_seconds": 60, "expect": {"success_by": "06:00", "days": "NODAY"}}, "expect.days"),
    "unknown": ({"interval_seconds": 60, "expect": {"by": "06:00"}}, "expect.by"),
    "no object": ({"interval_seconds": 60, "expect": "06:00"}, "expect"),
    "nobody": ({"delay": "1h", "notify": ["nobody"]}, "notify"),
    "no list": ({"delay": "1h", "notify": "ops"}, "notify"),
    "too many": ({"delay": "1h", "notify": ["ops"] * 11}, "notify"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.shared
def test_what_makes_no_sense_is_refused(client, name):
    body, field = BAD[name]
    problem = assert_problem(client.post("/v1/tasks", {"target_type": "NOOP", **body}), 400)
    assert problem["errors"][0]["field"] == field, problem
    assert name != "nobody" or "'nobody'" in problem["errors"][0]["message"]


def test_a_task_names_who_is_told_of_it(client, receiver):
    add(client, receiver, path="/all")
    add(client, receiver, path="/ops", name="ops", filter={"queue": "other"})
    dev = add(client, receiver, path="/dev", name="dev", filter={"queue": "other"})
    fail(client, receiver, name="silent", notify=[], path="/f1")
    named, = fail(client, receiver, name="named", notify=["ops"], path="/f2")
    assert client.task(named)["notify"] == ["ops"]
    receiver.answer("/f3", Reply(400))
    recurring = client.create(interval_seconds=1, name="recurring", notify=[dev["id"]], retry={"max_attempts": 1}, **receiver.target("/f3"))
    steps = {"steps": [{"name": "a", "retry": {"max_attempts": 1}, **receiver.target("/f1")}]}
    run = client.post("/v1/workflows", {"name": "run", "definition": steps, "notify": ["dev"]})
    assert run.status == 201, run
    names = lambda path: {t["name"] for m in told(receiver, 1, path) for t in m["data"]["tasks"]}
    until(lambda: "recurring" in names("/dev"), why=lambda: names("/dev"))
    until(lambda: len(incidents(client)) >= 5, why=lambda: incidents(client))
    until(lambda: {"named", "recurring"} <= names("/all"), why=lambda: names("/all"))
    assert names("/ops") == {"named"} and "silent" not in names("/all")
    until(lambda: names("/dev") >= {"recurring", "a"} or names("/dev") >= {"recurring", "run"}, why=lambda: names("/dev"))
    changed = client.request("PATCH", f"/v1/tasks/{recurring['id']}", {"notify": None})
    assert changed.status == 200 and "notify" not in changed.json


def test_settings_are_found_by_their_user(client, receiver):
    add(client, receiver, name="a", user_id="ada l.")
    add(client, receiver, name="b", user_id="bob")
    listed = lambda query: [s["name"] for s in client.get("/v1/notification-settings" + query).json["notification_settings"]]
    assert listed("?user_id=ada%20l.") == ["a"] and listed("?user_id=bob&limit=100") == ["b"] and listed("?user_id=c") == []
    assert listed("") == ["a", "b"]
    add(client, receiver, name="c", user_id="ada l.")
    assert listed("?user_id=ada%20l.&limit=2") == ["a", "c"], "a page is filled"
    first = client.get("/v1/notification-settings?user_id=ada%20l.&limit=1").json
    rest = listed(f"?user_id=ada%20l.&limit=1&cursor={first['pagination']['next_cursor']}")
    assert [s["name"] for s in first["notification_settings"]] == ["a"] and rest == ["c"]
