"""kill -9 around each step of a notification: no incident is untold, and a kill repeats only the messages that were under way, under the same
id."""

import json
import os

import pytest

from server import Reply, until

LONG = bool(os.environ.get("BELFRY_TEST_LONG"))
ROUNDS = 25 if LONG else 1
FAILPOINTS = ("before_fold", "after_fold", "before_send", "after_send")
PLACES = 3


def told(receiver):
    """Each incident that was told as opened, with the ids of its messages."""
    seen = {}
    for call in receiver.to("/told"):
        message = json.loads(call.body)
        if message["type"] == "incident.opened":
            seen.setdefault(message["data"]["incident"], []).append(call.headers["webhook-id"])
    return seen


def add_setting(client, receiver):
    body = {"name": "ops", "on_failure": True, "group_wait": "0s", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": receiver.url("/told")}}
    assert client.post("/v1/notification-settings", body).status == 201


def conclude(client, receiver, failed, repeats):
    """Everything that failed is told, each under one id, and no more often than the kills explain."""
    until(lambda: len(told(receiver)) == failed, timeout_s=60, why=lambda: (told(receiver), client.get("/v1/incidents").json))
    until(lambda: all(n["state"] == "SENT" for n in client.get("/v1/notifications").json["notifications"]), timeout_s=60,
          why=lambda: client.get("/v1/notifications").json)
    assert {i["id"] for i in client.get("/v1/incidents").json["incidents"]} == set(told(receiver))
    messages = told(receiver).values()
    assert all(len(set(ids)) == 1 for ids in messages), "a repeat has the same id"
    assert sum(len(ids) - 1 for ids in messages) <= repeats, messages


@pytest.mark.standalone("each failpoint kills the only process")
@pytest.mark.parametrize("point", FAILPOINTS)
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_kill_leaves_no_incident_untold(make_server, receiver, point, turn):
    server = make_server()
    client = server.client()
    add_setting(client, receiver)
    server.stop()
    server.start(env={"BELFRY_FAILPOINT": f"{point}:kill:{1 + turn % PLACES}"})
    client = server.client()
    for i in range(PLACES):
        place = f"/fail-{chr(97 + i)}"
        receiver.answer(place, Reply(400))
        try:
            client.create(retry={"max_attempts": 1}, delay="0s", **receiver.target(place))
        except OSError:
            break  # it was killed already
    made = i + 1
    server.process.wait(20)
    server.start(env={"BELFRY_FAILPOINT": ""})
    client = server.client()
    until(lambda: all(t["status"] == "FAILED" for t in client.all("/v1/tasks")), why="tasks did not run")
    failed = len(client.all("/v1/tasks"))
    assert failed in (made, made - 1)
    conclude(client, receiver, failed, PLACES if point == "after_send" else 1)


def fail_everywhere(client, receiver):
    """One task of each place, all failed."""
    for i in range(PLACES):
        place = f"/fail-{chr(97 + i)}"
        receiver.answer(place, Reply(400))
        client.create(retry={"max_attempts": 1}, delay="0s", **receiver.target(place))
    until(lambda: all(t["status"] == "FAILED" for t in client.all("/v1/tasks")), timeout_s=40, why="tasks did not run")


@pytest.mark.parametrize("point", FAILPOINTS if LONG else FAILPOINTS[:1])
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_the_node_that_is_left_tells_what_the_others_did_not(make_cluster, postgres, database, receiver, point, turn):
    """Two of three nodes die as soon as they come to the failpoint."""
    armed = {"BELFRY_HTTP_ALLOW_LOOPBACK": "true", "BELFRY_FAILPOINT": f"{point}:kill:{1 + turn % 2}"}
    cluster = make_cluster(postgres.url(database), env=[{"BELFRY_FAILPOINT": ""}, armed, armed])
    client = cluster.nodes[0].client()
    add_setting(client, receiver)
    fail_everywhere(client, receiver)
    conclude(client, receiver, PLACES, 2 * PLACES)
    for node in cluster.nodes[1:]:
        if node.runs():
            node.process.kill()


@pytest.mark.parametrize("point", FAILPOINTS if LONG else FAILPOINTS[:1])
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_in_a_fleet_the_control_node_that_is_left_tells_it(make_fleet, receiver, point, turn):
    armed = {"BELFRY_HTTP_ALLOW_LOOPBACK": "true", "BELFRY_FAILPOINT": f"{point}:kill:{1 + turn % 2}"}
    fleet = make_fleet(env=[{"BELFRY_FAILPOINT": ""}, armed], workers=1)
    client = fleet.nodes[0].client()
    add_setting(client, receiver)
    fail_everywhere(client, receiver)
    conclude(client, receiver, PLACES, PLACES)
    if fleet.nodes[1].runs():
        fleet.nodes[1].process.kill()
