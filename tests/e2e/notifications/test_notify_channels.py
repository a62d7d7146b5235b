"""Where notifications go: links, hosts that stall or fail for days, Slack's limit, and the heartbeat."""

import json
import socket
import sqlite3
import uuid

import pytest

from server import Reply, now_ms, until
from test_notifications import add, fail, incidents, notifications, told
from test_tenants import Tenant

DAY = 86_400_000


@pytest.mark.standalone("one node has the address")
def test_messages_link_to_the_dashboard(make_server, receiver):
    client = make_server("--public-url", "https://belfry.example.com/").client()
    add(client, receiver)
    add(client, receiver, delivery_type="PUSH", delivery_config={"url": receiver.url("/push"), "topic": "ops"})
    add(client, receiver, delivery_type="SLACK_WEBHOOK", delivery_config={"url": receiver.url("/slack")})
    fail(client, receiver)

    def link(incident):
        return f"https://belfry.example.com/ui/#/alerts?incident={incident}"
    message, = told(receiver)
    assert message["data"]["url"] == link(message["data"]["incident"])
    push, = told(receiver, path="/push")
    assert push["click"] in {link(i["id"]) for i in incidents(client)} and push["click"] in push["message"]
    slack, = told(receiver, path="/slack")
    assert any(link(i["id"]) in slack["blocks"][1]["text"]["text"] for i in incidents(client))


def test_many_causes_of_one_host_are_one_incident(client, receiver):
    add(client, receiver)
    for i in range(6):
        fail(client, receiver, path=f"/place-{chr(97 + i)}")
    host = "host:" + receiver.url("").removeprefix("http://").rstrip("/")
    until(lambda: sum(i["count"] for i in incidents(client)) == 6, why=lambda: incidents(client))
    found = {i["cause"]: i["count"] for i in incidents(client)}
    assert len(found) == 4 and found[host] == 3, found
    assert len(told(receiver, 4)) == 4
    fail(client, receiver, path="/place-a")  # a cause that has an incident stays with it
    until(lambda: sorted(i["count"] for i in incidents(client)) == [1, 1, 2, 3], why=lambda: incidents(client))


@pytest.mark.standalone("all messages are sent by one node")
def test_a_host_that_stalls_leaves_slots_for_others(make_server, receiver):
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        client = make_server().client()
        for _ in range(20):  # more than there are slots
            add(client, receiver, delivery_config={"url": f"http://127.0.0.1:{silent.getsockname()[1]}/"})
        add(client, receiver)
        fail(client, receiver)
        told(receiver)
        states = [n["state"] for n in notifications(client)]
        assert states.count("SENDING") <= 5 and "FAILED" not in states, states


@pytest.mark.standalone("each node counts by itself")
def test_a_slack_webhook_gets_one_message_a_second(make_server, receiver):
    client = make_server().client()
    add(client, receiver, delivery_type="SLACK_WEBHOOK", delivery_config={"url": receiver.url("/slack")})
    for place in "ab":
        fail(client, receiver, path=f"/place-{place}")
    first, second = receiver.wait("/slack", 2)
    assert second.received_ms - first.received_ms >= 600


def fill(server, setting, count):
    """Messages that are due, of a Slack webhook: they go one a second, and hide later ones. As many settings hide the settings of other tenants."""
    database, at = sqlite3.connect(server.data_dir / "belfry.db", timeout=30), int(now_ms())
    for i in range(count):
        message = uuid.UUID(bytes=at.to_bytes(6, "big") + i.to_bytes(10, "big"))
        doc = json.dumps({"id": str(message), "setting": setting, "type": "incident.opened", "channel": "SLACK_WEBHOOK", "state": "WAITING", "created_ms": at})
        database.execute("INSERT INTO incident_records (id, kind, tenant_id, setting_id, version, next_ms, doc) VALUES (?, 1, 1, ?, 1, ?, ?)",
                         (message.bytes, uuid.UUID(setting).bytes, at, doc))
        database.execute("INSERT INTO catalog SELECT tenant_id, kind, ?, version, created_ms, updated_ms, doc FROM catalog WHERE name = ?", (str(message), setting))
    database.commit()
    database.close()


@pytest.mark.standalone("it writes into the database")
def test_the_messages_of_one_tenant_hide_those_of_no_other(make_server, receiver):
    server = make_server()
    slack = add(server.client(), receiver, delivery_type="SLACK_WEBHOOK", delivery_config={"url": receiver.url("/slack")})
    hook = {"on_failure": True, "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": receiver.url("/told")}}
    other = Tenant(server, "other")
    setting = other.request("POST", "/v1/notification-settings", {"name": "s", **hook}).json["id"]
    fill(server, slack["id"], 250)
    receiver.wait("/slack")
    sent = other.request("POST", f"/v1/notification-settings/{setting}/test")
    assert (sent.status, sent.json["state"]) == (200, "SENT"), sent


@pytest.mark.standalone("one node leads at once")
def test_the_heartbeat_is_called_while_all_is_well(make_server, receiver):
    make_server(env={"BELFRY_NOTIFY_HEARTBEAT_URL": receiver.url("/beat")})
    call, = receiver.wait("/beat")
    assert call.method == "GET" and call.body == b""


def age(server, days):
    """Makes all messages so much older: their ids begin with the time."""
    database = sqlite3.connect(server.data_dir / "belfry.db")
    for old, doc in database.execute("SELECT id, doc FROM incident_records WHERE kind = 1").fetchall():
        at = int.from_bytes(old[:6], "big") - days * DAY
        new = at.to_bytes(6, "big") + old[6:]
        doc = json.dumps({**json.loads(doc), "id": str(uuid.UUID(bytes=new)), "created_ms": at})
        database.execute("UPDATE incident_records SET id = ?, doc = ? WHERE id = ?", (new, doc, old))
    database.commit()
    database.close()


@pytest.mark.standalone("it writes into the database")
def test_a_setting_that_fails_for_five_days_is_disabled_and_the_operator_is_told(make_server, receiver):
    server = make_server()
    client = server.client()
    receiver.answer("/gone", Reply(404))
    setting = add(client, receiver, path="/gone", name="old")
    path = f"/v1/notification-settings/{setting['id']}"
    add(client, receiver, on_failure=False, on_alert=True)
    fail(client, receiver)
    until(lambda: [n["state"] for n in notifications(client)] == ["FAILED"], why=lambda: notifications(client))
    assert client.get(path).json["enabled"] is True
    server.stop()
    age(server, 6)
    client = server.start().client()
    fail(client, receiver, path="/fail-again")
    until(lambda: client.get(path).json["enabled"] is False, why=lambda: (client.get(path).json, server.log()))
    message, = told(receiver)
    assert (message["type"], message["data"]["kind"], message["data"]["cause"]) == ("incident.opened", "ALERT", "SettingDisabled")
    assert message["data"]["detail"] == "The notification setting 'old' of tenant 'default' was disabled: all its messages have failed for 5 days"
    row = [r for r in client.get("/v1/audit").json["audit"] if r["action"] == "disable notification setting"][0]
    assert (row["key"], row["object_kind"], row["object"]) == ("system", "notification_setting", setting["id"]), row
    fail(client, receiver, path="/fail-more")
    until(lambda: {n["state"] for n in notifications(client)} == {"FAILED", "SENT"}, why=lambda: notifications(client))
    assert len(receiver.to("/told")) == 1 and len(receiver.to("/gone")) == 2
