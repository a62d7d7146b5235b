"""Queues: their rules over the API, and that they are in force at once. How rates and shares are kept is in the simulator."""

import concurrent.futures
import threading

import pytest

from server import Reply, at, now_ms, to_ms, until
from test_api import BAD_TEXTS, alive, assert_problem

pytestmark = [pytest.mark.tenant, pytest.mark.cluster]

BAD_RULES = {
    "unknown field": ({"max_rate": 5}, "max_rate"),
    "negative rate": ({"max_dispatches_per_second": -1}, "max_dispatches_per_second"),
    "absurd rate": ({"max_dispatches_per_second": 1e30}, "max_dispatches_per_second"),
    "rate as text": ({"max_dispatches_per_second": "fast"}, "max_dispatches_per_second"),
    "burst of none": ({"max_burst": 0}, "max_burst"),
    "half a slot": ({"max_concurrent": 0.5}, "max_concurrent"),
    "negative concurrency": ({"max_concurrent": -3}, "max_concurrent"),
    "no weight": ({"weight": 0}, "weight"),
    "much weight": ({"weight": 1001}, "weight"),
    "paused as text": ({"paused": "yes"}, "paused"),
    "reason without pause": ({"reason": "why not"}, "reason"),
    "reason of a resume": ({"paused": False, "reason": "why not"}, "reason"),
    "until and for": ({"paused": True, "until": "2099-01-01T00:00:00Z", "for": "1h"}, "for"),
    "until the past": ({"paused": True, "until": "2001-01-01T00:00:00Z"}, "until"),
    "until soon": ({"paused": True, "until": "soon"}, "until"),
    "for ever and a day": ({"paused": True, "for": "99999d"}, "for"),
    "a long story": ({"paused": True, "reason": "x" * 501}, "reason"),
    "unknown in paused": ({"paused": {"because": "x"}}, "paused.because"),
}


def patch(client, name, body, **more):
    return client.request("PATCH", f"/v1/queues/{name}", body, **more)


def test_a_queue_is_listed_once_a_task_or_a_rule_names_it(client, receiver):
    assert client.get("/v1/queues").json["queues"] == []
    client.create(queue="mail", delay="1h", **receiver.target("/x"))
    assert client.request("PUT", "/v1/queues/batch", {"weight": 7}).status == 200
    queues = client.all("/v1/queues", "queues")
    assert [(q["name"], q["weight"], q["version"], q["state"]) for q in queues] == [("batch", 7, 1, "open"), ("mail", 100, 0, "open")]
    first = client.get("/v1/queues?limit=1").json
    assert [q["name"] for q in first["queues"]] == ["batch"]
    assert [q["name"] for q in client.get("/v1/queues?limit=1&cursor=" + first["pagination"]["next_cursor"]).json["queues"]] == ["mail"]
    assert client.get("/v1/queues/mail").json["due"] == 0
    assert_problem(client.get("/v1/queues/nobody"), 404)


@pytest.mark.text("no task runs")
def test_put_sets_all_limits_and_patch_some(client):
    put = client.request("PUT", "/v1/queues/q", {"max_dispatches_per_second": 2.5, "max_concurrent": 3})
    assert put.status == 200 and put.headers["etag"] == '"1"'
    assert put.json["max_burst"] == 2, "what a second brings"
    patched = patch(client, "q", {"weight": 5, "max_burst": 9}).json
    assert (patched["max_dispatches_per_second"], patched["max_burst"], patched["max_concurrent"], patched["weight"]) == (2.5, 9, 3, 5)
    again = client.request("PUT", "/v1/queues/q", {"weight": 6}).json
    assert (again["max_dispatches_per_second"], again["max_concurrent"], again["weight"], again["version"]) == (None, None, 6, 3)
    cleared = patch(client, "q", {"weight": None}).json
    assert cleared["weight"] == 100
    assert client.request("DELETE", "/v1/queues/q").status == 204
    assert_problem(client.request("DELETE", "/v1/queues/q"), 404)
    assert client.request("PUT", "/v1/queues/q", {}).json["version"] == 1, "it begins anew"


@pytest.mark.text("no task runs")
def test_if_match_guards_a_queue(client):
    assert_problem(client.request("PUT", "/v1/queues/q", {}, headers={"If-Match": '"1"'}), 412)
    client.request("PUT", "/v1/queues/q", {"weight": 2})
    assert patch(client, "q", {"weight": 3}, headers={"If-Match": '"1"'}).json["version"] == 2
    assert_problem(patch(client, "q", {"weight": 4}, headers={"If-Match": '"1"'}), 412)
    assert_problem(client.request("DELETE", "/v1/queues/q", headers={"If-Match": '"1"'}), 412)
    assert client.get("/v1/queues/q").headers["etag"].startswith('"2-')


@pytest.mark.text("no task runs")
def test_of_many_edits_none_is_lost(server):
    def edit(i):
        client = server.client()
        answer = patch(client, "q", {("max_concurrent", "weight")[i % 2]: 10 + i})
        client.close()
        return answer.status

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        done = list(pool.map(edit, range(18)))
    assert set(done) <= {200, 409}, done
    assert server.client().get("/v1/queues/q").json["version"] == done.count(200)


@pytest.mark.text("no task runs")
def test_an_idempotency_key_is_answered_once(client):
    first = patch(client, "q", {"weight": 3}, key="k-1")
    again = patch(client, "q", {"weight": 3}, key="k-1")
    assert first.json == again.json and again.headers["idempotency-replayed"] == "true" and again.headers["etag"] == '"1"'
    assert_problem(patch(client, "q", {"weight": 4}, key="k-1"), 422)


def test_a_paused_queue_dispatches_nothing_until_it_is_resumed(client, receiver):
    before = now_ms()
    paused = patch(client, "mail", {"paused": True, "reason": "disk full"}).json
    assert paused["state"] == "paused" and paused["paused"]["by"] == "admin" and paused["paused"]["reason"] == "disk full"
    assert before - 2000 < to_ms(paused["paused"]["since"]) < now_ms() + 2000 and paused["paused"]["until"] is None
    held = client.create(queue="mail", **receiver.target("/held"))
    free = client.create(queue="other", **receiver.target("/free"))
    client.wait_for(free["id"], "COMPLETED")
    queue = until(lambda: (q := client.get("/v1/queues/mail").json)["due"] == 1 and q, why="the held task is not shown as due")
    assert queue["state"] == "paused" and queue["running"] == 0
    assert client.task(held["id"])["status"] == "SCHEDULED" and not receiver.to("/held")
    resumed = patch(client, "mail", {"paused": False}).json
    assert resumed["paused"] is None and resumed["resumed_at"] and resumed["state"] == "open"
    client.wait_for(held["id"], "COMPLETED")
    assert len(receiver.wait("/held")) == 1


@pytest.mark.text("no task runs")
def test_a_resume_of_a_queue_that_nobody_knows_is_404(client):
    assert_problem(patch(client, "mial", {"paused": False}), 404)
    assert client.get("/v1/queues/mial").status == 404
    assert patch(client, "new", {"paused": False, "weight": 3}).json["weight"] == 3
    client.create(queue="used", delay="1h", target_type="NOOP")
    assert patch(client, "used", {"paused": False}).json["paused"] is None


def test_a_pause_with_an_end_ends_by_itself(client, receiver):
    paused = patch(client, "mail", {"paused": True, "for": "2s"}).json
    end_ms = to_ms(paused["paused"]["until"])
    client.create(queue="mail", **receiver.target("/later"))
    [call] = receiver.wait("/later")
    assert call.received_ms >= end_ms - 5, "it ran before the pause was over"
    shown = client.get("/v1/queues/mail").json
    assert shown["state"] == "open" and shown["paused"] is None and to_ms(shown["resumed_at"]) == end_ms


@pytest.mark.text("no task runs")
def test_put_of_limits_leaves_a_pause_alone_and_what_get_shows_may_be_sent_back(client):
    patch(client, "q", {"paused": True, "reason": "r", "until": at(now_ms() + 3600_000)})
    limited = client.request("PUT", "/v1/queues/q", {"max_concurrent": 1}).json
    assert limited["paused"]["reason"] == "r" and limited["state"] == "paused"
    back = client.request("PUT", "/v1/queues/q", {"paused": limited["paused"], "weight": 3}).json
    assert back["paused"] == limited["paused"]


@pytest.mark.own_server
def test_rules_and_pauses_survive_a_restart(server, receiver):
    client = server.client()
    patch(client, "mail", {"paused": True, "reason": "night", "max_concurrent": 2})
    held = client.create(queue="mail", **receiver.target("/held"))
    server.kill()
    server.start()
    client = server.client()
    client.wait_for(client.create(queue="other", **receiver.target("/free"))["id"], "COMPLETED")
    queue = client.get("/v1/queues/mail").json
    assert queue["paused"]["reason"] == "night" and queue["max_concurrent"] == 2
    assert client.task(held["id"])["status"] == "SCHEDULED" and not receiver.to("/held")
    assert patch(client, "mail", {"paused": False}).status == 200
    client.wait_for(held["id"], "COMPLETED")


@pytest.mark.cluster(when="long")
@pytest.mark.parametrize("case", BAD_RULES)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.shared
def test_a_bad_rule_is_refused_by_its_name(client, method, case):
    body, field = BAD_RULES[case]
    problem = assert_problem(client.request(method, "/v1/queues/q", body), 400)
    assert [e["field"] for e in problem["errors"]] == [field], problem
    assert_problem(client.get("/v1/queues/q"), 404)


@pytest.mark.cluster(when="long")
@pytest.mark.text("no task runs")
def test_what_is_no_object_and_what_is_no_name_is_refused(client):
    for text in BAD_TEXTS[1:]:
        for method in ("PUT", "PATCH"):
            answer = client.request(method, "/v1/queues/q", raw=text, headers={"Content-Type": "application/json"})
            assert answer.status == (413 if len(text) > 64 << 10 else 400), (method, text[:30], answer)
    for name in ("", "a%20b", "a/b", "x" * 101, "%00", "..%2f..", "%ff", "q?x=1", "%C3%A4"):
        answer = client.request("PUT", f"/v1/queues/{name}", {})
        assert answer.status in (400, 404), (name, answer)
    assert client.request("PUT", "/v1/queues/" + "x" * 100, {}).status == 200
    assert_problem(client.request("PUT", "/v1/queues/q", raw=b"x" * (65 << 10), headers={"Content-Type": "application/json"}), 413)
    assert_problem(client.get("/v1/queues?limit=0"), 400)
    assert_problem(client.get("/v1/queues?size=5"), 400)
    assert alive(client)


@pytest.mark.cluster(when="always")
@pytest.mark.parametrize("limit", [{"max_dispatches_per_second": 5}, {"max_concurrent": 3}], ids=["rate", "concurrency"])
def test_a_queue_is_throttled_only_while_a_task_is_due(server, client, limit):
    """Nodes that share a limit give their part back when nothing is due: that holds no task back."""
    assert client.request("PUT", "/v1/queues/brief", limit).status == 200
    client.wait_for(client.create(queue="brief", target_type="NOOP")["id"], "COMPLETED")

    def states():
        return [client.get("/v1/queues/brief", node=node).json["state"] for node in server.nodes]

    for _ in range(5):
        assert states() == ["open"] * len(server.nodes)
    listed = [q["state"] for q in client.all("/v1/queues", "queues") if q["name"] == "brief"]
    assert listed == ["open"]


def test_a_queue_whose_limit_holds_a_due_task_is_throttled(client, receiver):
    free = threading.Event()
    receiver.answer("/slow", Reply(hold=free))
    assert client.request("PUT", "/v1/queues/narrow", {"max_concurrent": 1}).status == 200
    for _ in range(3):
        client.create(queue="narrow", **receiver.target("/slow"))
    until(lambda: client.get("/v1/queues/narrow").json["state"] == "throttled", why="a task is due, and the limit holds it back")
    free.set()
    until(lambda: client.get("/v1/queues/narrow").json["due"] == 0)
    assert client.get("/v1/queues/narrow").json["state"] == "open"
