"""Notifications: who is told what of a failure, how often, and that it is told although somebody is killed on the way."""

import base64
import contextlib
import email
import email.header
import hashlib
import hmac
import json
import socket
import sqlite3
import threading
import uuid

import pytest

from server import Client, Reply, at, now_ms, to_ms, until
from test_api import assert_problem
from test_tenants import Tenant

pytestmark = pytest.mark.tenant

ONCE = {"retry": {"max_attempts": 1}, "delay": "0s"}
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER_SECRET = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()


def add(client, receiver, path="/told", **more):
    """A setting that tells the receiver at once."""
    body = {"name": f"ops {uuid.uuid4()}", "on_failure": True, "group_wait": "0s", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": receiver.url(path)}}
    body.update(more)
    answer = client.post("/v1/notification-settings", body)
    assert answer.status == 201, answer
    assert answer.headers["location"] == f"/v1/notification-settings/{answer.json['id']}"
    return answer.json


def fail(client, receiver, count=1, path="/fail", **more):
    receiver.answer(path, Reply(400))
    tasks = [client.create(**{**ONCE, **receiver.target(path), **more})["id"] for _ in range(count)]
    for task in tasks:
        client.wait_for(task, "FAILED")
    return tasks


def told(receiver, count=1, path="/told"):
    return [json.loads(c.body) for c in receiver.wait(path, count)]


def incidents(client, **query):
    answer = client.get("/v1/incidents?" + "&".join(f"{k}={v}" for k, v in query.items()))
    assert answer.status == 200, answer
    return answer.json["incidents"]


def notifications(client):
    return client.get("/v1/notifications").json["notifications"]


def signature(secret, call):
    signed = f"{call.headers['webhook-id']}.{call.headers['webhook-timestamp']}.".encode() + call.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


@pytest.mark.own_server
def test_a_failure_is_told_once_and_signed(client, receiver):
    setting = add(client, receiver, delivery_config={"url": receiver.url("/told"), "secret": SECRET})
    assert setting["delivery_config"]["secret"] == "***"
    task, = fail(client, receiver, name="nightly")
    message, = told(receiver)
    assert message["type"] == "incident.opened" and message["data"]["kind"] == "FAILURE"
    assert message["data"]["setting"] == setting["id"] and message["data"]["tenant"] == "default"
    shown, = message["data"]["tasks"]
    assert (shown["id"], shown["name"], shown["http_status"], shown["error"]) == (task, "nightly", 400, "HTTP 400")
    call, = receiver.to("/told")
    assert call.headers["webhook-signature"] == signature(SECRET, call)
    incident, = incidents(client)
    assert (incident["id"], incident["state"], incident["count"]) == (message["data"]["incident"], "OPEN", 1)
    sent = until(lambda: [n for n in notifications(client) if n["state"] == "SENT"], why=lambda: notifications(client))
    assert sent[0]["id"] == call.headers["webhook-id"] and sent[0]["attempts"] == 1
    assert incident["setting_name"] == sent[0]["setting_name"] == setting["name"]
    assert [sent[0][k] for k in ("kind", "cause", "task_id", "task_name")] == ["FAILURE", incident["cause"], task, "nightly"]


def test_failures_of_one_cause_are_one_message_and_of_two_causes_two(client, receiver):
    add(client, receiver)
    fail(client, receiver, 10)
    told(receiver)
    fail(client, receiver, 5)
    until(lambda: incidents(client)[0]["count"] == 15, why=lambda: incidents(client))
    assert len(receiver.to("/told")) == 1
    fail(client, receiver, 1, path="/other-place")
    assert len({m["data"]["incident"] for m in told(receiver, 2)}) == 2


def test_with_every_all_failures_are_counted_in_a_message(client, receiver):
    add(client, receiver, mode="EVERY", group_window="1s")
    for _ in range(4):
        fail(client, receiver, 2)
    until(lambda: sum(m["data"]["count"] for m in last_of_each(told(receiver))) == 8, why=lambda: told(receiver))
    until(lambda: all(i["state"] == "CLOSED" for i in incidents(client)), why=lambda: incidents(client))
    assert sum(i["count"] for i in incidents(client)) == 8


def last_of_each(messages):
    return {m["data"]["incident"]: m for m in messages}.values()


def test_a_setting_that_is_unmuted_or_waits_less_tells_what_is_open(client, receiver):
    muted = add(client, receiver, path="/muted", muted_until=at(now_ms() + 3_600_000))
    waits = add(client, receiver, path="/waits", group_wait="1h")
    fail(client, receiver)
    until(lambda: len(incidents(client, state="OPEN")) == 2)
    assert client.request("PATCH", f"/v1/notification-settings/{muted['id']}", {"muted_until": None}).status == 200
    assert client.request("PATCH", f"/v1/notification-settings/{waits['id']}", {"group_wait": "0s"}).status == 200
    for path in ("/muted", "/waits"):
        assert [m["type"] for m in told(receiver, path=path)] == ["incident.opened"]


class OfTenant(Client):
    def __init__(self, server, name):
        super().__init__(server)
        self.header = {"Authorization": f"Bearer {Tenant(server, name).key['key']}"}

    def request(self, method, path, body=None, **more):
        return super().request(method, path, body, headers={**self.header, **more.pop("headers", {})}, **more)


@pytest.mark.own_server
def test_receivers_of_one_tenant_that_hang_hold_up_no_other(server, receiver):
    acme, zoo = OfTenant(server, "acme"), OfTenant(server, "zoo")
    others = [socket.create_server(("127.0.0.1", 0)) for _ in range(20)]  # each a host of its own, which accepts and says nothing
    for other in others:
        for _ in range(3):
            add(acme, receiver, delivery_config={"url": f"http://127.0.0.1:{other.getsockname()[1]}/"})
    add(zoo, receiver, path="/zoo")
    fail(acme, receiver, path="/acme")
    until(lambda: sum(n["state"] == "SENDING" for n in acme.all("/v1/notifications", "notifications")) >= 8, why="nothing is sent")
    began = now_ms()
    fail(zoo, receiver, path="/fails")
    assert told(receiver, path="/zoo")[0]["data"]["tenant"] == "zoo"
    assert now_ms() - began < 8000  # a receiver that hangs has 10 s
    for other in others:
        other.close()


def test_only_what_a_setting_wants_is_told(client, receiver):
    add(client, receiver, path="/a", on_failure=False, on_success=True, filter={"queue": "mail*"})
    add(client, receiver, path="/b", filter={"name": "wanted"})
    add(client, receiver, path="/c", on_failure=False, on_dead_letter=True, filter={"task_type": "report"})
    client.wait_for(client.create(**ONCE, **receiver.target("/ok"), queue="mails")["id"], "COMPLETED")
    fail(client, receiver, name="wanted", queue="mails")
    fail(client, receiver, name="other", task_type="report")
    assert [m["data"]["kind"] for m in told(receiver, path="/a")] == ["SUCCESS"]
    success, = [i for i in incidents(client) if i["kind"] == "SUCCESS"]
    assert (success["state"], success["recurring_failing"]) == ("CLOSED", 0) and success["closed_at"] >= success["last_at"]
    assert "SUCCESS" not in [i["kind"] for i in client.get("/v1/incidents?state=OPEN").json["incidents"]]
    assert [m["data"]["tasks"][0]["name"] for m in told(receiver, path="/b")] == ["wanted"]
    assert [m["data"]["kind"] for m in told(receiver, path="/c")] == ["DEAD_LETTER"]
    until(lambda: all(n["state"] == "SENT" for n in notifications(client)), why=lambda: notifications(client))
    assert [len(receiver.to(path)) for path in ("/a", "/b", "/c")] == [1, 1, 1]


def test_retries_and_expired_tasks_are_told(client, receiver):
    add(client, receiver, path="/retry", on_failure=False, on_retry=True)
    add(client, receiver, path="/missed", on_failure=False, on_missed=True)
    receiver.answer("/again", Reply(503), Reply(200))
    client.wait_for(client.create(delay="0s", retry={"max_attempts": 3, "base_delay_ms": 10}, **receiver.target("/again"))["id"], "COMPLETED")
    assert told(receiver, path="/retry")[0]["data"]["kind"] == "RETRY"
    receiver.answer("/late", Reply(503))
    client.wait_for(client.create(delay="0s", expires_after_seconds=1, retry={"max_attempts": 5, "base_delay_ms": 60000, "jitter": "NONE"},
                                  **receiver.target("/late"))["id"], "EXPIRED")
    message, = told(receiver, path="/missed")
    assert (message["data"]["kind"], message["data"]["cause"]) == ("MISSED", "expired")


def test_a_recurring_task_that_recovers_is_told_so_once(client, receiver):
    add(client, receiver, on_recovered=True)
    receiver.answer("/job", Reply(400))
    task = client.create(interval_seconds=1, retry={"max_attempts": 1}, **receiver.target("/job"))["id"]
    opened, = told(receiver)
    assert opened["type"] == "incident.opened" and opened["data"]["tasks"][0]["id"] == task
    receiver.answer("/job", Reply(200))
    closed = told(receiver, 2)[1]
    assert closed["type"] == "incident.closed" and closed["data"]["incident"] == opened["data"]["incident"]
    until(lambda: not incidents(client, state="OPEN"), why=lambda: incidents(client))
    assert incidents(client)[0]["recovered"] is True and closed["data"]["recovered"] is True


def test_what_recovers_before_it_was_told_is_told_once_as_closed(client, receiver):
    add(client, receiver, group_wait="20s", on_recovered=False)
    receiver.answer("/job", Reply(400))
    client.create(interval_seconds=1, retry={"max_attempts": 1}, **receiver.target("/job"))
    until(lambda: incidents(client), why="no incident")
    receiver.answer("/job", Reply(200))
    closed, = told(receiver)
    assert (closed["type"], closed["data"]["recovered"]) == ("incident.closed", True) and closed["data"]["count"] >= 1


def test_a_task_that_is_cancelled_has_not_recovered_and_a_pause_ends_nothing(client, receiver):
    add(client, receiver, on_recovered=True)
    receiver.answer("/job", Reply(400))
    task = client.create(interval_seconds=1, retry={"max_attempts": 1}, **receiver.target("/job"))["id"]
    opened, = told(receiver)
    client.act(task, "pause")
    client.act(task, "cancel")
    closed = told(receiver, 2)[1]
    assert (closed["type"], closed["data"]["recovered"]) == ("incident.closed", False)
    assert closed["data"]["incident"] == opened["data"]["incident"] and closed["data"]["closed_at"]


@pytest.mark.standalone("a clock is set")
def test_a_run_by_hand_ends_an_incident_by_its_success_alone(make_server, receiver, clock):
    client = make_server(env=clock.env).client()
    add(client, receiver, on_recovered=True)
    tasks = [client.create(cron_expression="0 0 1 1 *", retry={"max_attempts": 1}, target_type="WORKER", queue=queue)["id"] for queue in ("by-hand", "stopped")]

    def lease(task):
        client.act(task, "run-now")
        queue = client.task(task)["queue"]
        return until(lambda: client.post("/v1/leases", {"queue": queue, "wait_seconds": 5, "lease_seconds": 600}).json["leases"])[0]["id"]
    for task, error in zip(tasks, ("this", "that"), strict=True):
        assert client.post(f"/v1/leases/{lease(task)}/fail", {"error": error}).status == 200
    told(receiver, 2)
    before = client.task(tasks[0])
    run = lease(tasks[0])
    assert [client.task(tasks[0])[k] for k in ("version", "updated_at")] == [before[k] for k in ("version", "updated_at")]
    client.act(tasks[1], "cancel")
    clock.jump(20_000)
    closed = told(receiver, 3)[2]  # both were looked at
    assert (closed["type"], closed["data"]["recovered"], closed["data"]["tasks"][0]["id"]) == ("incident.closed", False, tasks[1])
    assert [i["tasks"][0]["id"] for i in incidents(client, state="OPEN")] == [tasks[0]]
    assert client.post(f"/v1/leases/{run}/complete", {}).status == 200
    clock.jump(20_000)
    closed = told(receiver, 4)[3]
    assert (closed["type"], closed["data"]["recovered"], closed["data"]["tasks"][0]["id"]) == ("incident.closed", True, tasks[0])


@pytest.mark.standalone("it reads the database")
def test_an_incident_that_waits_for_recovery_is_not_written(make_server, receiver):
    server = make_server()
    client = server.client()
    add(client, receiver)
    receiver.answer("/job", Reply(400))
    task = client.create(interval_seconds=3600, retry={"max_attempts": 1}, **receiver.target("/job"))["id"]
    client.act(task, "run-now")
    told(receiver)
    until(lambda: [n["state"] for n in notifications(client)] == ["SENT"], why=lambda: notifications(client))

    def row():
        with contextlib.closing(sqlite3.connect(server.data_dir / "belfry.db")) as database:
            return database.execute("SELECT version, next_ms FROM incident_records WHERE kind = 0").fetchone()
    version, next_ms = row()
    until(lambda: now_ms() > next_ms + 1500, why="time stands still")  # it was looked at
    assert row() == (version, next_ms)


def test_with_after_only_a_series_of_failures_is_told(client, receiver):
    add(client, receiver, after=3)
    fail(client, receiver, 2)
    until(lambda: [i["count"] for i in incidents(client)] == [2], why=lambda: incidents(client))
    assert incidents(client)[0]["told"] == 0
    fail(client, receiver, 1)
    assert told(receiver)[0]["data"]["count"] == 3


def test_an_incident_is_muted_and_acknowledged(client, receiver):
    add(client, receiver, group_wait="2s")
    fail(client, receiver)
    incident, = until(lambda: incidents(client), why="there is no incident")
    muted = client.post(f"/v1/incidents/{incident['id']}/mute", {"for": "1h"})
    assert muted.status == 200 and muted.json["muted_until"] > at(now_ms())
    acked = client.post(f"/v1/incidents/{incident['id']}/ack")
    assert acked.status == 200 and acked.json["acknowledged_at"] and acked.json["acknowledged_by"]
    assert client.get(f"/v1/incidents/{incident['id']}").json["acknowledged_at"] == acked.json["acknowledged_at"]
    assert_problem(client.post(f"/v1/incidents/{incident['id']}/mute", {"until": "2001-01-01T00:00:00Z"}), 400)
    assert_problem(client.post(f"/v1/incidents/{incident['id']}/mute", {"for": "1h", "until": at(now_ms() + 60000)}), 400)
    fail(client, receiver, path="/other")
    told(receiver)  # the one that is not muted
    assert len(receiver.to("/told")) == 1


def test_a_test_answers_what_became_of_it_and_a_message_is_sent_again(client, receiver):
    setting = add(client, receiver)
    assert_problem(client.post(f"/v1/notification-settings/{setting['id']}/test", {"when": "now"}), 400)
    answer = client.post(f"/v1/notification-settings/{setting['id']}/test")
    assert (answer.status, answer.json["state"], answer.json["http_status"]) == (200, "SENT", 200)
    assert told(receiver)[0]["type"] == "test"
    receiver.answer("/told", Reply(404), Reply(200))
    failed = client.post(f"/v1/notification-settings/{setting['id']}/test")
    assert (failed.status, failed.json["state"], failed.json["error"]) == (200, "FAILED", "HTTP 404")
    again = client.post(f"/v1/notifications/{failed.json['id']}/resend")
    assert again.status == 202 and again.json["created_at"] == failed.json["created_at"]
    until(lambda: client.get(f"/v1/notifications/{failed.json['id']}").json["state"] == "SENT", why=lambda: notifications(client))
    first = client.get(f"/v1/notifications/{failed.json['id']}").json
    client.post(f"/v1/notifications/{failed.json['id']}/resend")
    last = until(lambda: [n for n in notifications(client) if n["id"] == first["id"] and len(n["history"]) == 5], why=lambda: notifications(client))[0]
    assert [(a["what"], a["http_status"], a["error"]) for a in last["history"]] == [
        ("FAILED", 404, "HTTP 404"), ("RESENT", None, None), ("SENT", 200, None), ("RESENT", None, None), ("SENT", 200, None)]
    assert [bool(a["by"]) for a in last["history"]] == [False, True, False, True, False] and last["attempts"] == 3
    assert [last[k] for k in ("created_at", "sent_at")] == [first[k] for k in ("created_at", "sent_at")] and last["resent_at"] > first["resent_at"]
    assert last["setting_name"] == setting["name"] and last["kind"] is last["task_id"] is None
    calls = receiver.wait("/told", 4)
    assert {call.headers["webhook-id"] for call in calls[1:]} == {failed.json["id"]}
    assert_problem(client.post("/v1/notification-settings/00000000-0000-7000-8000-000000000000/test"), 404)


def test_a_receiver_that_fails_gets_the_message_again_under_the_same_id(client, receiver):
    receiver.answer("/told", Reply(503, headers={"Retry-After": "1"}), Reply(200))
    add(client, receiver)
    fail(client, receiver)
    calls = receiver.wait("/told", 2)
    assert calls[0].headers["webhook-id"] == calls[1].headers["webhook-id"]
    message = until(lambda: [n for n in notifications(client) if n["state"] == "SENT"], why=lambda: notifications(client))[0]
    assert message["attempts"] == 2


@pytest.mark.standalone("a clock is set to another day")
def test_a_retry_after_beyond_the_day_of_a_message_does_not_end_it(make_server, receiver, clock):
    client = make_server(env=clock.env).client()
    receiver.answer("/told", Reply(503, headers={"Retry-After": "86400"}), Reply(200))
    add(client, receiver, repeat_every="30d")
    fail(client, receiver)
    message, = until(lambda: [n for n in notifications(client) if n["error"]], why=lambda: notifications(client))
    assert message["state"] == "WAITING"
    assert to_ms(message["next_attempt_at"]) == to_ms(message["created_at"]) + 86_400_000 - 60_000
    clock.jump(86_400_000 - 50_000)
    until(lambda: [(n["state"], n["attempts"]) for n in notifications(client)] == [("SENT", 2)], why=lambda: notifications(client))


def test_an_answer_that_is_long_is_an_answer(client, receiver):
    receiver.answer("/told", Reply(200, body=b"x" * (3 << 20)))
    add(client, receiver)
    fail(client, receiver)
    until(lambda: [(n["state"], n["attempts"]) for n in notifications(client)] == [("SENT", 1)], why=lambda: notifications(client))


@pytest.mark.standalone("it reads the database")
def test_messages_of_a_disabled_tenant_wait_until_it_is_enabled(make_server, receiver, clock):
    def put_off():  # by a minute
        with contextlib.closing(sqlite3.connect(server.data_dir / "belfry.db", timeout=30)) as database:
            rows = database.execute("SELECT next_ms, doc FROM incident_records").fetchall()
        return any(json.loads(doc or "{}").get("state") == "WAITING" and next_ms > clock.now_ms() + 30_000 for next_ms, doc in rows)

    server = make_server(env=clock.env)
    client, acme = server.client(), Tenant(server, "acme")
    setting = {"name": "ops", "on_failure": True, "group_wait": "2s", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": receiver.url("/told")}}
    assert acme.request("POST", "/v1/notification-settings", setting).status == 201
    receiver.answer("/fail", Reply(400))
    assert acme.create(**{**ONCE, **receiver.target("/fail")}).status == 201
    until(lambda: acme.request("GET", "/v1/incidents").json["incidents"], why="no incident")
    assert client.request("PATCH", "/v1/tenants/acme", {"disabled": True}).status == 200
    until(put_off, why="no message waits")
    assert client.request("PATCH", "/v1/tenants/acme", {"disabled": False}).status == 200
    clock.jump(61_000)
    assert told(receiver)[0]["type"] == "incident.opened"


def test_slack_and_push_get_their_own_forms(client, receiver):
    slack = add(client, receiver, delivery_type="SLACK_WEBHOOK", delivery_config={"url": receiver.url("/slack")})
    assert slack["delivery_config"] == {"url": "***"}
    add(client, receiver, delivery_type="PUSH", delivery_config={"url": receiver.url("/push"), "topic": "ops", "token": "tk_1", "priority": 5})
    fail(client, receiver, name="a<b>&c")
    message, = told(receiver, path="/slack")
    assert "a&lt;b&gt;&amp;c" in message["text"] and message["blocks"][0]["type"] == "section"
    push, = told(receiver, path="/push")
    assert (push["topic"], push["priority"], push["tags"]) == ("ops", 5, ["warning"]) and "a<b>&c" in push["title"]
    assert receiver.to("/push")[0].headers["authorization"] == "Bearer tk_1"


def test_messages_beyond_the_limit_are_counted(client, receiver):
    setting = add(client, receiver, max_per_hour=2)
    for i in range(4):
        fail(client, receiver, path=f"/place-{chr(97 + i)}")
    rows = until(lambda: len(incidents(client)) == 4 and [n for n in notifications(client) if n["type"] == "suppressed"], why=lambda: incidents(client))
    assert rows[0]["setting"] == setting["id"] and rows[0]["state"] == "WAITING"
    assert len(receiver.wait("/told", 2)) == 2


@pytest.mark.text("settings are in the store")
def test_steps_of_a_setting_are_kept_and_checked(client, receiver):
    steps = [{"after": "1m", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": receiver.url("/boss")}}]
    assert add(client, receiver, steps=steps)["steps"] == steps
    problem = assert_problem(client.post("/v1/notification-settings", {"name": "x", "on_failure": True, "delivery_type": "HTTP_WEBHOOK",
                                                                       "delivery_config": {"url": receiver.url("/")}, "steps": [{"after": "1m"}]}), 400)
    assert problem["errors"][0]["field"].startswith("steps[0]")


# ---- settings ----

BAD = {
    "no type": ({}, "delivery_type"), "nothing wanted": ({"delivery_type": "HTTP_WEBHOOK", "on_failure": False}, "on_failure"),
    "no url": ({"delivery_type": "HTTP_WEBHOOK"}, "delivery_config.url"), "scheme": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "ftp://x"}}, "delivery_config.url"),
    "user": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://a:b@x/"}}, "delivery_config.url"),
    "short secret": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://x/", "secret": "whsec_YQ=="}}, "delivery_config.secret"),
    "hidden": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://x/", "secret": "***"}}, "delivery_config.secret"),
    "sealed": ({"delivery_type": "PUSH", "delivery_config": {"url": "https://x/", "topic": "t", "token": "enc:1:a:b"}}, "delivery_config.token"),
    "no topic": ({"delivery_type": "PUSH", "delivery_config": {"url": "https://x/"}}, "delivery_config.topic"),
    "not used": ({"delivery_type": "SLACK_WEBHOOK", "delivery_config": {"url": "https://x/", "topic": "t"}}, "delivery_config.topic"),
    "mail": ({"delivery_type": "EMAIL", "delivery_config": {"to": ["a@example.com"]}}, "delivery_type"), "unknown": ({"when": 1}, "when"),
    "wait": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://x/"}, "group_wait": "2h"}, "group_wait"),
    "header": ({"delivery_type": "PUSH", "delivery_config": {"url": "https://x/", "topic": "t", "token": "a\r\nX-Other: 1"}}, "delivery_config.token"),
    "invisible characters": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://x/"}, "name": "op\u200bs"}, "name"),
    "bidirectional characters": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://x/"}, "name": "\u2067ops"}, "name"),
    "tags": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://x/"}, "user_id": "ann\U000e0041"}, "user_id"),
    "control characters": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://x/"}, "user_id": "a\nb"}, "user_id"),
    "topic": ({"delivery_type": "PUSH", "delivery_config": {"url": "https://x/", "topic": "../t"}}, "delivery_config.topic"),
    **{f"url {url}": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": url}}, "delivery_config.url")
       for url in ("https://127.1/", "https://2130706433/", "https://0x7f.1/", "https://x:65536/", "https://x:0/", "https://x/#a", "https://a..b/", "https://[::g]/")},
    "own field": ({"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://x/", "old_secret": "x"}}, "delivery_config"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.shared
def test_a_setting_that_makes_no_sense_is_refused(client, name):
    body, field = BAD[name]
    problem = assert_problem(client.post("/v1/notification-settings", {"name": "x", "on_failure": True, **body}), 400)
    assert problem["errors"][0]["field"] == field, problem


@pytest.mark.text("settings are in the store")
def test_settings_are_listed_changed_and_removed(client, receiver):
    a, b = add(client, receiver), add(client, receiver, name="second", user_id="u1")
    listed = client.get("/v1/notification-settings").json["notification_settings"]
    assert [s["id"] for s in listed] == [a["id"], b["id"]]
    path = f"/v1/notification-settings/{b['id']}"
    assert client.get(path).json == b
    changed = client.request("PATCH", path, {"name": "third", "repeat_every": "1d"})
    assert changed.status == 200 and (changed.json["name"], changed.json["repeat_every"], changed.json["version"]) == ("third", "1d", 2)
    assert changed.json["user_id"] == "u1" and changed.json["group_wait"] == "0s"
    assert_problem(client.request("PATCH", path, {"name": "x"}, headers={"If-Match": '"1"'}), 412)
    taken = assert_problem(client.request("PATCH", path, {"name": a["name"]}), 409)
    assert taken["errors"][0]["field"] == "name" and a["id"] in taken["detail"]
    assert_problem(client.post("/v1/notification-settings", {k: a[k] for k in ("name", "on_failure", "delivery_type", "delivery_config")}), 409)
    assert client.request("PATCH", path, {"name": "third", "after": 2}).status == 200  # its own
    assert client.request("DELETE", path).status == 204
    assert_problem(client.get(path), 404)
    assert_problem(client.request("PATCH", path, {"name": "x"}), 404)
    assert_problem(client.request("DELETE", path), 404)


def test_a_disabled_or_removed_setting_tells_nothing(client, receiver):
    setting = add(client, receiver)
    other = add(client, receiver, path="/other-told")
    assert client.request("PATCH", f"/v1/notification-settings/{setting['id']}", {"enabled": False}).json["enabled"] is False
    fail(client, receiver)
    told(receiver, path="/other-told")
    client.request("DELETE", f"/v1/notification-settings/{other['id']}")
    fail(client, receiver)
    assert not receiver.to("/told") and len(receiver.to("/other-told")) == 1


def test_a_new_secret_signs_beside_the_old_one_for_a_day(client, receiver):
    setting = add(client, receiver, delivery_config={"url": receiver.url("/told"), "secret": SECRET})
    path = f"/v1/notification-settings/{setting['id']}"
    assert client.request("PATCH", path, {"delivery_config": {"secret": OTHER_SECRET}}).json["delivery_config"]["secret"] == "***"
    assert client.request("PATCH", path, {"name": "kept", "delivery_config": {"secret": "***"}}).status == 200
    client.post(path + "/test")
    call, = receiver.wait("/told")
    assert call.headers["webhook-signature"].split(" ") == [signature(OTHER_SECRET, call), signature(SECRET, call)]


@pytest.mark.text("settings are in the store")
def test_a_token_does_not_go_to_another_address(client, receiver):
    setting = add(client, receiver, delivery_type="PUSH", delivery_config={"url": receiver.url("/a"), "topic": "t", "token": "tk"})
    problem = assert_problem(client.request("PATCH", f"/v1/notification-settings/{setting['id']}", {"delivery_config": {"url": receiver.url("/b")}}), 400)
    assert problem["errors"][0]["field"] == "delivery_config.token"


@pytest.mark.standalone("a file of the store is searched")
def test_secrets_of_a_setting_are_not_in_the_store(make_server, receiver):
    server = make_server()
    client = server.client()
    add(client, receiver, delivery_type="PUSH", delivery_config={"url": receiver.url("/a"), "topic": "t", "token": "tk_canary_token"})
    add(client, receiver, delivery_config={"url": receiver.url("/a"), "secret": SECRET})
    server.stop()
    stored = b"".join(p.read_bytes() for p in server.data_dir.iterdir() if p.is_file() and p.name.startswith("belfry.db"))
    assert b"tk_canary_token" not in stored and SECRET.removeprefix("whsec_").encode() not in stored


@pytest.mark.standalone("the key file of one node is rotated")
def test_a_setting_needs_its_key_and_is_encrypted_again_with_a_new_one(make_server, receiver, belfry):
    server = make_server()
    client = server.client()
    setting = add(client, receiver, delivery_config={"url": receiver.url("/told"), "secret": SECRET})
    path = f"/v1/notification-settings/{setting['id']}"
    shown = [client.get(path), client.get("/v1/notification-settings"), client.request("PATCH", path, {"name": "kept"}), client.get("/v1/audit")]
    assert all(answer.status == 200 and SECRET.removeprefix("whsec_").encode() not in answer.body for answer in shown)
    server.stop()
    # The store has no other secret than the setting's: it alone needs the key.
    key_file = server.data_dir / "secrets.key"
    right = key_file.read_bytes()
    key_file.unlink()
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(server.data_dir))
    assert done.code == 1 and "is missing" in done.err, done
    assert belfry("secrets", "init", "--data-dir", str(server.data_dir)).code == 0
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(server.data_dir))
    assert done.code == 1 and "has other keys than the store" in done.err, done
    key_file.write_bytes(right)
    assert belfry("secrets", "rotate", "--data-dir", str(server.data_dir)).code == 0
    new = next(line for line in key_file.read_text().splitlines() if not line.startswith("#"))
    server.start()
    client = server.client()
    until(lambda: not client.get("/v1/scheduler/status").json["secrets"]["older_keys"], why="the older key is still needed")
    server.stop()
    key_file.write_text(new + "\n")
    server.start()
    client = server.client()
    assert client.get(path).json["delivery_config"]["secret"] == "***"
    assert client.post(f"{path}/test").json["state"] == "SENT"
    call, = receiver.wait("/told")
    assert call.headers["webhook-signature"] == signature(SECRET, call)


class Mailbox:
    """An SMTP server that keeps what it gets, and refuses some recipients."""

    def __init__(self, refused=()):
        self.mails, self.refused = [], refused
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rwb") as stream:
            def say(line):
                stream.write(line + b"\r\n")
                stream.flush()
            to = []
            say(b"220 test")
            while line := stream.readline():
                word = line.split()[0].upper() if line.split() else b""
                if word == b"RCPT" and any(r.encode() in line for r in self.refused):
                    say(b"550 no such user")
                elif word == b"DATA":
                    say(b"354 go on")
                    lines = iter(stream.readline, b".\r\n")
                    self.mails.append((to, email.message_from_bytes(b"".join(lines))))
                    say(b"250 kept")
                else:
                    to += [line.decode().strip()] if word == b"RCPT" else []
                    say(b"221 bye" if word == b"QUIT" else b"250 ok")

    def close(self):
        self.listener.close()


@pytest.mark.standalone("one node has the mail server")
def test_mail_goes_to_the_recipients_that_are_allowed(make_server, receiver):
    with contextlib.closing(Mailbox(refused=("gone@example.com",))) as mailbox:
        server = make_server(env={"BELFRY_SMTP_URL": f"smtp://127.0.0.1:{mailbox.port}", "BELFRY_SMTP_FROM": "belfry@example.com",
                                  "BELFRY_NOTIFY_EMAIL_DOMAINS": "example.com"})
        client = server.client()
        to = ["ann@example.com", "gone@example.com"]
        add(client, receiver, delivery_type="EMAIL", delivery_config={"to": to})
        problem = assert_problem(client.post("/v1/notification-settings", {"name": "x", "on_failure": True, "delivery_type": "EMAIL",
                                                                           "delivery_config": {"to": ["ann@elsewhere.com"]}}), 400)
        assert problem["errors"][0]["field"] == "delivery_config.to"
        fail(client, receiver, name="Übersicht")
        until(lambda: mailbox.mails, why=lambda: notifications(client))
        recipients, mail = mailbox.mails[0]
        assert len(recipients) == 1 and "ann@example.com" in recipients[0]
        subject = str(email.header.make_header(email.header.decode_header(mail["subject"])))
        assert subject == "Belfry: 'Übersicht' failed" and mail["auto-submitted"] == "auto-generated"
        text = mail.get_payload(decode=True).decode()
        sent = until(lambda: [n for n in notifications(client) if n["state"] == "SENT"], why=lambda: notifications(client))[0]
        assert "Kind: FAILURE" in text and sent["id"] in mail["message-id"]
        assert len(mailbox.mails) == 1


@pytest.mark.text("settings are in the store")
@pytest.mark.own_server
def test_another_tenant_sees_nothing(server, client, receiver):
    setting = add(client, receiver)
    fail(client, receiver)
    told(receiver)
    incident, = incidents(client)
    client.post("/v1/tenants", {"name": "acme"})
    key = client.post("/v1/api-keys", {"name": "k", "tenant": "acme", "scopes": ["notifications:read", "notifications:write"]}).json["key"]
    other = {"headers": {"Authorization": f"Bearer {key}"}, "auth": False}
    assert client.get("/v1/incidents", **other).json["incidents"] == []
    assert client.get("/v1/notifications", **other).json["notifications"] == []
    assert client.get("/v1/notification-settings", **other).json["notification_settings"] == []
    for path in (f"/v1/notification-settings/{setting['id']}", f"/v1/incidents/{incident['id']}", f"/v1/notifications/{notifications(client)[0]['id']}"):
        assert_problem(client.get(path, **other), 404)
    assert_problem(client.post(f"/v1/incidents/{incident['id']}/ack", **other), 404)
    assert_problem(client.post(f"/v1/notification-settings/{setting['id']}/test", **other), 404)
