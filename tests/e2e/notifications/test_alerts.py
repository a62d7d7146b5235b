"""GET /v1/alerts and belfry alerts: the rules of deploy/monitoring, computed by the server."""

import re
import sqlite3

import pytest

from server import now_ms, until
from test_monitoring import RULES, alerts as rules, seconds
from test_notifications import add, incidents, notifications, told as messages
from test_tenants import Tenant

MINUTE = 60_000


def told(client):
    return {alert["name"]: alert for alert in client.get("/v1/alerts").json["alerts"]}


def text_of(name):
    return re.search(rf"- alert: {name}\n(.*?)(?=\n      - |\Z)", RULES.read_text(), re.S)[1]


@pytest.mark.text("rules are the same on every node")
def test_they_are_the_rules_of_the_monitoring(client):
    """The same names, in the same order, with the same severities, thresholds and `for`."""
    found = told(client)
    assert list(found) == list(rules())
    for name, alert in found.items():
        text = text_of(name)
        assert alert["severity"] == re.search(r"severity: (\w+)", text)[1], name
        assert alert["for_seconds"] == seconds(rules()[name]), name
        assert alert["runbook"] == re.search(r"runbook: (\S+)", text)[1], name
        limits = [float(limit) for limit in re.findall(r"(?:>|==) ([\d.]+)", text.split("labels:")[0])]
        budget = 1 if "Budget" not in name else 0.0001 if "Success" in name else 0.001  # /v1/alerts says how often it is used up
        assert alert.get("threshold") == (pytest.approx(limits[0] / budget) if limits else None), name


@pytest.mark.cluster
def test_a_server_that_does_nothing_has_no_alert(server, client):
    def settled():  # the lease of a leader is taken after the start, and each node hears of it by itself
        found = told(client)
        return found if found["BelfryNoLeader"]["value"] == 1 else None

    found = until(settled)
    assert {name for name, alert in found.items() if alert["state"] != "inactive"} == {"BelfryWatchdog"}
    assert found["BelfryDown"]["value"] >= 1
    acme = Tenant(server, "acme", scopes=("status:read",))
    assert acme.request("GET", "/v1/alerts").status == 403


def write_minutes(server, **figures):
    """Minutes with these figures, as a server would have written them: the last ten, and the next three, so that the test may take a while."""
    end = int(now_ms() - 10_000) // MINUTE * MINUTE
    database = sqlite3.connect(server.data_dir / "belfry.db")
    columns = [row[1] for row in database.execute("PRAGMA table_info(stats)")]
    database.execute("DELETE FROM stats")
    for i in range(-3, 10):
        row = {name: 0 for name in columns} | {"minute_ms": end - i * MINUTE, "node_id": b"\1" * 16, "written": 1, "claimed": 9, **figures}
        database.execute(f"INSERT INTO stats VALUES ({', '.join('?' * len(columns))})", list(row.values()))
    database.commit()
    database.close()


@pytest.mark.standalone("it writes into the database")
def test_what_the_minutes_say_is_shown_and_logged(make_server, belfry):
    """Ten minutes with a deep queue and late starts, as a server would have written them."""
    server = make_server()
    server.stop()
    write_minutes(server, backlog=1500, executed=100, delay_0=90, delay_6=10, run_0=100, requests=10)
    client = server.start().client()
    found = told(client)
    assert {name for name, alert in found.items() if alert["state"] == "firing"} >= {"BelfryQueueDeep", "BelfryLate", "BelfryStartBudgetFast", "BelfryWatchdog"}
    deep = found["BelfryQueueDeep"]
    assert (deep["value"], deep["threshold"], deep["unit"]) == (1500, 1000, "tasks") and "since" in deep
    assert found["BelfrySlowRuns"]["state"] == found["BelfryNothingClaimed"]["state"] == "inactive"
    until(lambda: [line for line in server.lines if "event=alert_firing alert=BelfryLate" in line], why=lambda: server.log())
    where = {"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}
    shown = belfry("alerts", env=where)
    assert shown.code == 0 and len(shown.lines) == 1 + len(found)
    assert re.search(r"^BelfryQueueDeep +firing +medium +1500 tasks +above 1000 tasks +5m +20\S+ \S+ +More than 1,000 due tasks wait$", shown.out, re.M), shown.out
    assert [found[name]["fires"] for name in ("BelfryDown", "BelfryBusy", "BelfryStartBudgetSlow")] == ["below 1 server", "above 80 %", "above 1 times the budget"]
    assert found["BelfryDown"]["value_text"] == "1 server" and "fires" not in found["BelfryWatchdog"]
    assert len({alert["summary"] for alert in found.values()}) == len(found)  # each has one of its own
    firing = belfry("alerts", "--firing", env=where)
    assert firing.lines[0].split()[:3] == ["NAME", "STATE", "SEVERITY"] and "BelfryLate" in firing.out and "BelfrySlowRuns" not in firing.out


@pytest.mark.standalone("it writes into the database")
def test_an_alert_that_fires_is_told_once_and_so_is_its_end(make_server, receiver):
    """To settings of the tenant default that ask for it. A server that is killed and comes back opens no second incident."""
    server = make_server()
    client = server.client()
    add(client, receiver, on_failure=False, on_alert=True, on_recovered=True, after=5, mode="EVERY")
    add(client, receiver, path="/other")
    server.stop()
    write_minutes(server, backlog=1500)
    client = server.start().client()
    message, = messages(receiver)
    assert (message["type"], message["data"]["kind"], message["data"]["cause"], message["data"]["tasks"]) == (
        "incident.opened", "ALERT", "BelfryQueueDeep", [])
    assert message["data"]["detail"].startswith("More than 1,000 due tasks wait. Severity: medium. Value: 1500 tasks; it fires above 1000 tasks")
    until(lambda: [n["state"] for n in notifications(client)] == ["SENT"], why=lambda: notifications(client))
    server.kill()
    client = server.start().client()
    until(lambda: [line for line in server.lines if "event=alert_firing" in line], why=lambda: server.log())
    server.stop()
    write_minutes(server, backlog=0)
    client = server.start().client()
    closed = messages(receiver, 2)[1]
    assert (closed["type"], closed["data"]["incident"]) == ("incident.closed", message["data"]["incident"])
    incident, = incidents(client)
    assert (incident["state"], incident["recovered"], incident["detail"]) == ("CLOSED", True, message["data"]["detail"])
    assert not receiver.to("/other") and len(receiver.to("/told")) == 2


@pytest.mark.text("rules are the same on every node")
def test_only_the_tenant_default_is_told_of_alerts(server, client, receiver):
    acme = Tenant(server, "acme", scopes=("notifications:read", "notifications:write"))
    body = {"name": "x", "on_alert": True, "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": receiver.url("/told")}}
    refused = acme.request("POST", "/v1/notification-settings", body)
    assert refused.status == 400 and refused.json["errors"][0]["field"] == "on_alert"
    assert client.post("/v1/notification-settings", body).json["on_alert"] is True
