"""The audit log: each act leaves one row, with the change or not at all."""

import collections
import hashlib
import json
import sqlite3
import threading
import uuid

import pytest

import openapi
from server import Reply, at, now_ms, until
from test_failed_keys import ask
from test_front_door import made_up_key
from test_jobs import dead_letters, job_over

FAR = {"name": "far", "delay": "1d", "target_type": "NOOP"}
RECURRING = {"name": "r", "cron_expression": "0 8 * * *", "target_type": "NOOP"}
WAITS = {"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "b", "depends_on": ["w"], "target_type": "NOOP"}]}
# What a worker did with a task is in the executions; a preview changes nothing.
LEAVES_NONE = {"POST /v1/leases", "POST /v1/leases/{name}/heartbeat", "POST /v1/leases/{name}/complete", "POST /v1/leases/{name}/fail",
               "POST /v1/preview"}
OF_SESSIONS = {"POST /v1/session", "DELETE /v1/session", "POST /v1/session/codes"}  # test_sessions.py sees their rows


def task(world, body=FAR, state=None):
    made = world.client.post("/v1/tasks", body).json["id"]
    if state:
        assert world.client.post(f"/v1/tasks/{made}/{state}").status == 200
    return made


def recurring(world, state=None):
    return task(world, RECURRING, state)


def failed(world):
    return dead_letters(world.client, world.receiver, "/dead", 1)[0]


def queue(world):
    assert world.client.request("PUT", "/v1/queues/mail", {"max_concurrent": 3}).status in (200, 201)
    return "mail"


def calendar(world):
    assert world.client.request("PUT", "/v1/calendars/feasts", {"excluded": ["2027-01-01"]}).status in (200, 201)
    return "feasts"


def definition(world):
    assert world.client.request("PUT", "/v1/workflow-definitions/order", WAITS).status in (200, 201)
    return "order"


def run(world, action=None):
    answer = world.client.post("/v1/workflows", {"definition": WAITS})
    assert answer.status == 201, answer
    made = answer.json["id"]
    until(lambda: world.client.get(f"/v1/workflows/{made}/status").json["awaiting"], why="the run does not wait")
    if action:
        answer = world.client.post(f"/v1/workflows/{made}/{action}")
        assert answer.status in (200, 202), answer  # 202: on a busy machine it takes more than half a second
    return made


def ended_run(world):
    made = run(world, "cancel")
    until(lambda: world.client.get(f"/v1/workflows/{made}").json["completed_at"], why="the run did not end")
    return made


def breaker(world):
    """A host that asks to be left alone."""
    world.receiver.answer("/busy", Reply(503, headers={"Retry-After": "60"}))
    task(world, {"delay": "0s", "retry": {"max_attempts": 1}, **world.receiver.target("/busy")})
    return until(lambda: world.client.get("/v1/breakers").json["breakers"], why="no breaker opened")[0]["id"]


def running_job(world):
    task(world)
    task(world)
    answer = world.client.post("/v1/dlq/retry", {"filter": {"all": True}, "rate": 1}) if dead_letters(world.client, world.receiver, "/dead", 3) else None
    assert answer.status == 202, answer
    return answer.json["id"]


def edge(world):
    parent, child = task(world), task(world)
    answer = world.client.post(f"/v1/tasks/{child}/dependencies", {"depends_on": [parent]})
    assert answer.status < 300, answer
    return f"{child}/dependencies/{parent}"


def api_key(world):
    return world.client.post("/v1/api-keys", {"name": "k", "scopes": ["tasks:read"]}).json["id"]


def tenant(world):
    assert world.client.post("/v1/tenants", {"name": "acme"}).status in (201, 409)
    return "acme"


SETTING = {"name": "s", "on_failure": True, "group_wait": "0s", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "http://192.0.2.1/"}}


def setting(w):
    return w.client.post("/v1/notification-settings", {**SETTING, "name": str(uuid.uuid4())}).json["id"]


def incident(w):
    made = setting(w)
    failed(w)
    return until(lambda: w.client.get(f"/v1/incidents?setting={made}").json["incidents"])[0]["id"]


def message(w):
    """One that was refused: its address is not public."""
    return w.client.post(f"/v1/notification-settings/{setting(w)}/test").json["id"]


def signing_key(w):
    answer = w.client.post("/v1/signing-keys", {"host": "api.example.com"})
    return answer.json["id"] if answer.status == 201 else w.client.get("/v1/signing-keys").json["signing_keys"][0]["id"]


# For each route that writes: how its object is made, and the body of the request. {} is where the object stands in the path.
ACTS = {
    "PUT /v1/queues/{name}": (lambda w: "post", {"max_concurrent": 2}),
    "PATCH /v1/queues/{name}": (queue, {"weight": 50}),
    "DELETE /v1/queues/{name}": (queue, None),
    "PUT /v1/calendars/{name}": (lambda w: "days", {"excluded": ["2027-01-01"]}),
    "DELETE /v1/calendars/{name}": (calendar, None),
    "POST /v1/tenants": (None, {"name": "other"}),
    "PATCH /v1/tenants/{name}": (tenant, {"max_running": 5}),
    "POST /v1/api-keys": (None, {"name": "new", "scopes": ["tasks:read"]}),
    "DELETE /v1/api-keys/{name}": (api_key, None),
    "PUT /v1/workflow-definitions/{name}": (lambda w: "first", WAITS),
    "DELETE /v1/workflow-definitions/{name}": (definition, None),
    "POST /v1/workflows": (None, {"definition": WAITS}),
    "POST /v1/workflows/{id}/cancel": (run, None),
    "POST /v1/workflows/{id}/pause": (run, None),
    "POST /v1/workflows/{id}/resume": (lambda w: run(w, "pause"), None),
    "POST /v1/workflows/{id}/retry": (ended_run, None),
    "POST /v1/workflows/{id}/rerun": (ended_run, {"from": "w"}),
    "POST /v1/workflows/{id}/signals/{name}": (lambda w: (run(w), "go"), None),
    "POST /v1/workflows/{id}/steps/{name}/run-now": (lambda w: (run(w), "b"), {"force": True}),
    "POST /v1/workflows/{id}/steps/{name}/force-complete": (lambda w: (run(w), "b"), None),
    "POST /v1/workflows/{id}/steps/{name}/skip": (lambda w: (run(w), "b"), None),
    "POST /v1/tasks/{id}/dependencies": (task, lambda w: {"depends_on": [task(w)]}),
    "DELETE /v1/tasks/{id}/dependencies/{other}": (lambda w: tuple(edge(w).split("/dependencies/")), None),
    "POST /v1/dlq/retry": (None, {"filter": {"all": True}}),
    "POST /v1/dlq/{id}/retry": (failed, None),
    "POST /v1/dlq/{id}/archive": (failed, {"reason": "old"}),
    "POST /v1/breakers/{id}/close": (breaker, None),
    "POST /v1/jobs/{id}/cancel": (running_job, None),
    "POST /v1/notification-settings": (None, SETTING),
    "PATCH /v1/notification-settings/{id}": (setting, {"name": "other"}),
    "DELETE /v1/notification-settings/{id}": (setting, None),
    "POST /v1/notification-settings/{id}/test": (setting, None),
    "POST /v1/incidents/{id}/ack": (incident, None),
    "POST /v1/incidents/{id}/mute": (incident, {"for": "1h"}),
    "POST /v1/incidents/{id}/unmute": (incident, None),
    "POST /v1/notifications/{id}/resend": (message, None),
    "POST /v1/signing-keys": (None, {"host": "made.example.com"}),
    "POST /v1/signing-keys/{id}/rotate": (signing_key, {"overlap": "1h"}),
    "DELETE /v1/signing-keys/{id}": (signing_key, None),
    "POST /v1/tasks/bulk": (None, {"action": "pause", "filter": {"queue": "nothing"}}),
    "POST /v1/tasks": (None, FAR),
    "POST /v1/tasks/batch": (None, [FAR, FAR, FAR]),
    "POST /v1/tasks/recurring": (None, RECURRING),
    "PATCH /v1/tasks/{id}": (task, {"priority": 7}),
    "DELETE /v1/tasks/{id}": (task, None),
    "POST /v1/tasks/{id}/cancel": (task, None),
    "POST /v1/tasks/{id}/pause": (task, None),
    "POST /v1/tasks/{id}/resume": (lambda w: task(w, state="pause"), None),
    "POST /v1/tasks/{id}/run-now": (task, None),
    "POST /v1/tasks/{id}/retry": (failed, None),
    "POST /v1/tasks/{id}/force-complete": (task, None),
    "POST /v1/recurring-tasks": (None, RECURRING),
    "PATCH /v1/recurring-tasks/{id}": (recurring, {"priority": 7}),
    "DELETE /v1/recurring-tasks/{id}": (recurring, None),
    "POST /v1/recurring-tasks/{id}/pause": (recurring, None),
    "POST /v1/recurring-tasks/{id}/resume": (lambda w: recurring(w, "pause"), None),
    "POST /v1/recurring-tasks/{id}/trigger-now": (recurring, None),
}


class World:
    def __init__(self, server, client, receiver, topology):
        self.server, self.client, self.receiver = server, client, receiver
        self.shared = topology != "standalone"

    def new_key(self, *scopes, **more):
        made = self.client.post("/v1/api-keys", {"name": "actor", "scopes": list(scopes) or ["admin"], **more}).json
        return made["id"], {"Authorization": f"Bearer {made['key']}"}

    def rows(self, **filters):
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        return self.client.all("/v1/audit?" + query, "audit")


@pytest.fixture
def world(server, client, receiver, topology):
    return World(server, client, receiver, topology)


def described_writes():
    return {f"{method.upper()} {path}" for path, methods in openapi.description()["paths"].items() for method in methods
            if method in ("post", "put", "patch", "delete")}


def test_every_route_that_writes_has_a_fixture_here():
    assert described_writes() == set(ACTS) | LEAVES_NONE | OF_SESSIONS


def act(world, route, headers, key):
    make, body = ACTS[route]
    method, path = route.split(" ")
    made = make(world) if make else ()
    objects = made if isinstance(made, tuple) else (made,)
    for one in objects:
        start = path.index("{")
        path = path[:start] + one + path[path.index("}") + 1:]
    body = body(world) if callable(body) else body
    raw = json.dumps(body).encode() if body is not None else None
    more = {"Content-Type": "application/json"} if raw else {}
    answer = world.client.request(method, path, raw=raw, headers={**headers, **more}, key=key)
    assert answer.status < 300, (route, answer)
    return objects, raw or b"", answer


def assert_one_row(world, route):
    key, headers = world.new_key()
    objects, sent, answer = act(world, route, headers, "once")
    rows = world.rows(key=key)
    assert [row["action"] for row in rows] == [route], (route, rows)
    row = rows[0]
    assert row["outcome"] == "DONE" and row["address"] == "127.0.0.1" and row["tenant"] == "default" and row["object_kind"]
    assert row["digest"] == hashlib.sha256(sent).hexdigest(), route
    assert row["count"] == (3 if route == "POST /v1/tasks/batch" else 1), route
    if objects:
        assert row["object"].split("/")[0] == objects[0], row
    elif row["count"] == 1:
        assert row["object"] in (answer.json.get("id"), answer.json.get("name")), (row, answer)


@pytest.mark.cluster
def test_every_route_that_writes_leaves_one_row(world):
    for route in sorted(ACTS, key=lambda route: ("breakers" in route, route)):  # the breaker holds the receiver's tasks
        assert_one_row(world, route)


@pytest.mark.cluster(when="always")
@pytest.mark.text("the node that answers writes the row")
def test_a_repeated_key_and_a_refused_request_leave_no_row(world):
    key, headers = world.new_key()
    for _ in range(3):
        assert world.client.post("/v1/tasks", FAR, headers=headers, key="same").status == 201
    assert world.client.post("/v1/tasks", {"delay": "soon"}, headers=headers).status == 400
    assert world.client.post("/v1/tasks/00000000-0000-7000-8000-000000000001/cancel", headers=headers).status == 404
    made = world.client.post("/v1/tasks", FAR, headers=headers).json["id"]
    assert world.client.request("PATCH", f"/v1/tasks/{made}", {"priority": 3}, headers={**headers, "If-Match": '"9"'}).status == 412
    assert [row["action"] for row in world.rows(key=key)] == ["POST /v1/tasks"] * 2
    assert world.client.post(f"/v1/tasks/{made}/pause", headers=headers).status == 200
    assert world.client.post(f"/v1/tasks/{made}/pause", headers=headers).status == 200  # changes nothing
    assert [row["action"] for row in world.rows(object=made)] == ["POST /v1/tasks/{id}/pause", "POST /v1/tasks"]


# Requests that leave all as it is: how the object is made, and the request that is sent twice.
CHANGES_NOTHING = {
    "PATCH /v1/tasks/{}": (task, {"name": "far", "priority": 5}),
    "PATCH /v1/recurring-tasks/{}": (recurring, {"name": "r", "cron_expression": "0 8 * * *"}),
    "PUT /v1/queues/{}": (queue, {"max_concurrent": 4, "weight": 50}),
    "PATCH /v1/queues/{}": (queue, {"weight": 60}),
    "PATCH /v1/tenants/{}": (tenant, {"max_running": 6}),
    "PUT /v1/workflow-definitions/{}": (lambda w: "second", WAITS),
    "POST /v1/tasks/{}/dependencies": (task, lambda w: {"depends_on": [task(w)]}),
}


@pytest.mark.cluster(when="always")
@pytest.mark.text("the node that answers writes the row")
def test_a_request_that_changes_nothing_leaves_no_row_and_no_version(world):
    for route, (make, body) in CHANGES_NOTHING.items():
        method, path = route.split(" ")
        path = path.format(make(world))
        body = body(world) if callable(body) else body
        assert world.client.request(method, path, body).status < 300, route
        key, headers = world.new_key()
        shown = world.client.get(path)
        same = [body, {}] if method == "PATCH" else [body]
        for one in same:
            assert world.client.request(method, path, one, headers=headers, key=f"{route} {one == {}}").status in (200, 204), route
        assert world.rows(key=key) == [], route
        assert world.client.get(path).json.get("version") == shown.json.get("version"), route
        assert world.client.get(path).headers.get("etag") == shown.headers.get("etag"), route


@pytest.mark.cluster(when="always")
def test_a_running_task_that_is_cancelled_leaves_a_row(world):
    hold = threading.Event()
    world.receiver.answer("/slow", Reply(200, hold=hold))
    made = task(world, {"delay": "0s", **world.receiver.target("/slow")})
    world.receiver.wait("/slow")
    key, headers = world.new_key()
    cancelled = lambda: world.client.post(f"/v1/tasks/{made}/cancel", headers=headers).status == 200  # 409: it is not yet
    until(cancelled, why=lambda: f"{world.client.task(made)}")
    hold.set()
    assert [row["action"] for row in world.rows(key=key)] == ["POST /v1/tasks/{id}/cancel"]


def test_a_task_that_is_claimed_ahead_leaves_its_row_with_the_change(world):
    made = task(world, {"run_at": at(now_ms() + 1500), "target_type": "NOOP"})
    key, headers = world.new_key()
    answer = world.client.request("PATCH", f"/v1/tasks/{made}", {"delay": "1d"}, headers=headers)
    assert answer.status == 200, answer
    assert [row["action"] for row in world.rows(key=key)] == ["PATCH /v1/tasks/{id}"]


def test_a_job_leaves_one_row_whatever_it_changes(world):
    for _ in range(5):
        task(world, {**FAR, "queue": "mail"})
    key, headers = world.new_key()
    job = world.client.post("/v1/tasks/bulk", {"action": "pause", "filter": {"queue": "mail"}}, headers=headers).json
    assert job_over(world.client, job)["done"] == 5
    rows = world.rows(key=key)
    assert len(rows) == 1 and rows[0]["object"] == job["id"] and rows[0]["object_kind"] == "job"
    assert not [row for row in world.rows(action="POST%20/v1/tasks/%7Bid%7D/*")]


@pytest.mark.text("the node that answers writes the row")
def test_a_dedupe_key_that_moves_a_task_leaves_a_row(world):
    key, headers = world.new_key()
    body = {**FAR, "dedupe_key": "one", "dedupe_window_seconds": 3600, "dedupe_action": "RESCHEDULE"}
    first = world.client.post("/v1/tasks", body, headers=headers)
    again = world.client.post("/v1/tasks", {**body, "delay": "2d"}, headers=headers)
    assert first.status == 201 and again.json["id"] == first.json["id"], again
    assert [row["object"] for row in world.rows(key=key)] == [first.json["id"]] * 2
    body["dedupe_action"] = "RETURN"
    assert world.client.post("/v1/tasks", body, headers=headers).status == 200
    assert len(world.rows(key=key)) == 2


@pytest.mark.text("the node that answers writes the row")
def test_tenants_see_their_own_rows(world):
    tenant(world)
    key, headers = world.new_key("tasks:write", "audit:read", tenant="acme")
    _, blind = world.new_key("tasks:write", tenant="acme")
    assert world.client.post("/v1/tasks", FAR, headers=headers).status == 201
    seen = world.client.get("/v1/audit", headers=headers).json["audit"]
    keys, (made,) = ([row for row in seen if row["action"] == f"POST /v1/{of}"] for of in ("api-keys", "tasks"))
    assert len(seen) == 3 and {row["tenant"] for row in seen} == {"acme"}
    assert made["key"] == key and "object_name" not in made  # this key may not read tasks
    assert [row["key"] != key for row in keys if row["object"] == key] == [True]  # who made it is a key of another tenant
    assert world.client.request("DELETE", "/v1/api-keys/second?tenant=acme").status == 404
    named = world.client.post("/v1/api-keys", {"name": "second", "scopes": ["tasks:read"], "tenant": "acme"}).json["id"]
    assert world.client.request("DELETE", "/v1/api-keys/second?tenant=acme").status == 204
    revoked = world.client.get("/v1/audit?action=DELETE%20*&limit=1", headers=headers).json["audit"][0]
    assert revoked["action"] == "DELETE /v1/api-keys/{name}" and revoked["object"] == named and revoked["object_name"] == "second"
    assert world.client.get("/v1/audit?tenant=default", headers=headers).status == 404
    assert world.client.get("/v1/audit", headers=blind).status == 403
    assert {row["tenant"] for row in world.rows()} == {"acme", "default"}
    assert {row["tenant"] for row in world.rows(tenant="acme")} == {"acme"}


@pytest.mark.text("the node that answers writes the row")
def test_filters_and_pages(world):
    before = at(now_ms() - (100 if world.shared else 1))
    made = [task(world) for _ in range(5)]
    world.client.request("DELETE", f"/v1/tasks/{made[0]}")
    listed = [row["object"] for row in world.rows(action="POST%20/v1/tasks", **{"from": before})]
    assert sorted(listed) == sorted(made)
    assert world.shared or listed == made[::-1]  # the clocks of nodes differ a little
    assert [row["object"] for row in world.rows(action="DELETE%20*")] == [made[0]]
    assert world.rows(to=before) and not [row for row in world.rows(to=before) if row.get("object") in made]
    page = world.client.get("/v1/audit?limit=2").json
    following = world.client.get(f"/v1/audit?limit=2&cursor={page['pagination']['next_cursor']}").json
    ids = [row["id"] for row in page["audit"] + following["audit"]]
    assert len(set(ids)) == 4 and ids == sorted(ids, reverse=True)
    first = [row for row in world.rows() if row.get("key") == "system"]
    assert [(row["action"], row["object_kind"]) for row in first] == [("make admin key", "api_key")]
    rows = world.rows()
    for strand in {row["strand"] for row in rows}:  # each node has its own
        seqs = [row["seq"] for row in rows if row["strand"] == strand]
        assert seqs == sorted(seqs, reverse=True), "one counts its rows in their order"


@pytest.mark.standalone("each node counts for itself")
def test_wrong_keys_are_all_counted_by_address_and_reason(world):
    tenant(world)
    made = world.client.post("/v1/api-keys", {"name": "old", "scopes": ["audit:read"], "tenant": "acme"}).json
    mine = world.client.post("/v1/api-keys", {"name": "mine", "scopes": ["audit:read"], "tenant": "acme"}).json
    assert world.client.request("DELETE", f"/v1/api-keys/{made['id']}?tenant=acme").status == 204
    sent = collections.Counter(ask(world.server, made_up_key(), "127.0.0.91")[0] for _ in range(30))
    assert all(ask(world.server, "bf_wrong", "127.0.0.91")[0] == 401 for _ in range(5))
    revoked = ask(world.server, made["key"], "127.0.0.92")
    assert revoked[0] == 401 and b"was revoked" in revoked[1]
    world.server.stop()  # what the minute has counted is not lost
    world.server.start()
    rows = [row for row in world.rows(action="refuse%20API%20key")]
    counts = collections.Counter()
    for row in rows:
        counts[row["address"], row["object"]] += row["count"]
    assert counts == {("127.0.0.91", "refused"): sent[401], ("127.0.0.91", "limited"): sent[429], ("127.0.0.91", "malformed"): 5, ("127.0.0.92", "revoked"): 1}
    assert [(row["tenant"], row["key"]) for row in rows if "key" in row] == [("acme", made["id"])] and {row["outcome"] for row in rows} == {"REFUSED"}
    seen = world.client.get("/v1/audit", headers={"Authorization": f"Bearer {mine['key']}"}).json["audit"]
    assert [row["object"] for row in seen if row["outcome"] == "REFUSED"] == ["revoked"]


@pytest.mark.standalone("it opens the embedded store's file")
def test_nobody_changes_rows_and_retention_takes_them(world, belfry):
    task(world)
    file = sqlite3.connect(world.server.data_dir / "belfry.db")
    for sql in ("DELETE FROM audit", "UPDATE audit SET actor = 'nobody'"):
        with pytest.raises(sqlite3.IntegrityError, match="audit rows cannot be"):
            file.execute(sql)
        file.rollback()
    names = [row[1] for row in file.execute("PRAGMA table_info(audit)")]
    before = file.execute("SELECT * FROM audit ORDER BY id").fetchall()
    others = ", ".join("'forged'" if name == "actor" else name for name in names)
    file.execute(f"INSERT OR REPLACE INTO audit ({', '.join(names)}) SELECT {others} FROM audit")
    assert file.execute("SELECT * FROM audit ORDER BY id").fetchall() == before
    file.rollback()
    file.close()
    world.server.stop()
    world.server.start(env={"BELFRY_RETENTION_AUDIT": "1s", "BELFRY_RETENTION_INTERVAL": "1s"})
    until(lambda: not world.rows(), why="the rows were not purged")


@pytest.mark.cluster(when="always")
@pytest.mark.text("the node that answers writes the row")
def test_the_command_prints_it(world, belfry):
    made = task(world)
    env = {"BELFRY_SERVER": world.server.turn().url, "BELFRY_KEY": world.server.key}
    done = belfry("audit", "--object", made, env=env)
    assert done.code == 0 and done.lines[0].split() == ["WHEN", "TENANT", "BY", "KEY", "ADDRESS", "ACTION", "OBJECT", "NAME", "COUNT", "OUTCOME", "REASON"], done
    assert made in done.lines[1] and "POST /v1/tasks" in done.lines[1] and "DONE" in done.lines[1]
    done = belfry("audit", "--since", "1h", "--action", "POST *", "--json", env=env)
    assert made in [json.loads(line)["object"] for line in done.lines]
    day_before = at(now_ms() - 86400000)[:10]
    assert made in belfry("audit", "--since", day_before, env=env).out
    assert "no rows match" in belfry("audit", "--until", day_before, env=env).err
    for wrong in ("yesterday", "2026-02-30", "2026-2-3"):
        refused = belfry("audit", "--since", wrong, env=env)
        assert refused.code == 2 and "a date, or how long ago, such as 2h" in refused.err, refused
    assert "no rows match" in belfry("audit", "--until", "1h", env=env).err
    named = world.client.post("/v1/tasks", {**FAR, "name": "nightly"}).json["id"]
    done = belfry("audit", "--object", "nightly", env=env)
    assert done.code == 0 and named in done.lines[1] and "nightly" in done.lines[1] and " default " in done.lines[1], done
    done = belfry("audit", "--object", "nobody", env=env)
    assert done.code == 0 and "no rows match; a task that was deleted or renamed" in done.err, done
    assert "there are more: use --limit N or --all" in belfry("audit", "-n", "1", env=env).err
    refused = world.client.get("/v1/audit?since=2026-01-01T00:00:00Z")
    assert refused.status == 400 and "did you mean 'from'?" in refused.body.decode(), refused


UNTIL = "2099-02-10T08:00:00.000Z"
# Acts that take a reason or an end, and what the row keeps of it.
REASONS = {
    "POST /v1/tasks/{id}/pause": (task, {"reason": "moved", "until": UNTIL}),
    "POST /v1/recurring-tasks/{id}/pause": (recurring, {"reason": "moved"}),
    "POST /v1/workflows/{id}/pause": (run, {"reason": "moved", "until": UNTIL}),
    "POST /v1/tasks/bulk": (None, {"action": "pause", "filter": {"queue": "nothing"}, "reason": "moved", "until": UNTIL}),
    "PATCH /v1/queues/{name}": (queue, {"paused": True, "reason": "moved", "until": UNTIL}),
    "POST /v1/dlq/{id}/archive": (failed, {"reason": "moved"}),
    "POST /v1/incidents/{id}/mute": (incident, {"until": UNTIL}),
}


@pytest.mark.cluster
def test_a_row_keeps_the_reason_and_the_end_of_its_act(world, belfry, monkeypatch):
    key, headers = world.new_key()
    for route, (make, body) in REASONS.items():
        monkeypatch.setitem(ACTS, route, (make, body))
        act(world, route, headers, f"once {route}")
        row = world.rows(key=key)[0]
        assert row["action"] == route and row["details"] == {name: body[name] for name in ("reason", "until") if name in body}, row
    _, reader = world.new_key("audit:read")
    seen = {row["action"]: row for row in world.client.get(f"/v1/audit?key={key}&limit=100", headers=reader).json["audit"]}
    assert "details" not in seen["POST /v1/tasks/{id}/pause"], "this key may not read tasks"
    assert seen["PATCH /v1/queues/{name}"]["details"]["reason"] == "moved"
    env = {"BELFRY_SERVER": world.server.turn().url, "BELFRY_KEY": world.server.key}
    assert belfry("audit", "--by", key, env=env).out.count("moved, until 2099-02-10 08:00:00Z") == 4


@pytest.mark.cluster(when="always")
@pytest.mark.text("the node that answers writes the row")
def test_names_are_those_of_the_time_of_the_act(world, belfry):
    env = {"BELFRY_SERVER": world.server.turn().url, "BELFRY_KEY": world.server.key}
    made = world.client.post("/v1/api-keys", {"name": "déployer", "scopes": ["admin"]}).json
    mine = {"Authorization": f"Bearer {made['key']}"}
    one = world.client.post("/v1/tasks", {**FAR, "name": "nightly"}, headers=mine).json["id"]
    assert world.client.request("PATCH", f"/v1/tasks/{one}", {"name": "weekly"}, headers=mine).status == 200
    assert world.client.post(f"/v1/tasks/{one}/cancel", headers=mine).status == 200
    assert world.client.request("DELETE", f"/v1/tasks/{one}", headers=mine).status == 204
    kept = world.client.post("/v1/notification-settings", {**SETTING, "name": "pager"}, headers=mine).json["id"]
    assert world.client.request("PATCH", f"/v1/notification-settings/{kept}", {"name": "phone"}, headers=mine).status == 200
    assert world.client.request("DELETE", f"/v1/notification-settings/{kept}", headers=mine).status == 204
    assert world.client.request("PUT", "/v1/queues/mail", {"max_concurrent": 7}, headers=mine).status in (200, 201)
    assert world.client.request("DELETE", f"/v1/api-keys/{made['id']}").status == 204
    rows = world.rows(key=made["id"])[::-1]
    acts = [(row["action"].split()[0], row["object"], row.get("object_name")) for row in rows]
    assert {row["key_name"] for row in rows} == {"déployer"}
    expected = [("POST", one, "nightly"), ("PATCH", one, "nightly"), ("POST", one, "weekly"), ("DELETE", one, "weekly"),
                ("POST", kept, "pager"), ("PATCH", kept, "pager"), ("DELETE", kept, "phone"), ("PUT", "mail", None)]
    assert acts == expected or (world.shared and sorted(acts, key=str) == sorted(expected, key=str)), acts  # the clocks of nodes differ a little
    assert {row.get("object_name") for row in world.rows(object=made["id"])} == {"déployer"}, "also of a key that is gone"
    until(lambda: world.client.get("/v1/tasks", headers=mine).status == 401)
    row = until(lambda: world.rows(key=made["id"], action="refuse%20API%20key"), why="no row of the revoked key")[0]
    assert row["key_name"] == "déployer" and row["outcome"] == "REFUSED"
    shown = belfry("audit", "--by", made["id"], "--object", one, env=env)
    assert shown.code == 0 and "déployer" in shown.out and "nightly" in shown.out and "weekly" in shown.out, shown


@pytest.mark.cluster(when="always")
@pytest.mark.text("the node that answers writes the row")
def test_the_command_finds_keys_by_id_and_name(world, belfry):
    env = {"BELFRY_SERVER": world.server.turn().url, "BELFRY_KEY": world.server.key}
    made = world.client.post("/v1/api-keys", {"name": "deployer", "scopes": ["tasks:write"]}).json
    mine = task(world)
    answer = world.client.post("/v1/tasks", FAR, headers={"Authorization": f"Bearer {made['key']}"})
    assert answer.status == 201, answer
    for word in (made["id"], "bf_" + made["id"], "deployer"):
        done = belfry("audit", "--by", word, env=env)
        assert done.code == 0 and answer.json["id"] in done.out and mine not in done.out, done
    assert made["id"] in belfry("audit", "--object", "deployer", env=env).out
    assert [row["object"] for row in world.client.get("/v1/audit?key=bf_" + made["id"]).json["audit"]] == [answer.json["id"]]


@pytest.mark.text("the node that answers writes the row")
def test_times_in_the_wrong_order_are_refused(world, belfry):
    refused = world.client.get("/v1/audit?from=2026-02-10T08:00:00Z&to=2026-02-10T07:00:00Z")
    assert refused.status == 400 and refused.json["errors"][0]["field"] == "to", refused
    done = belfry("audit", "--since", "1h", "--until", "2h", env={"BELFRY_SERVER": world.server.url, "BELFRY_KEY": world.server.key})
    assert done.code == 2 and "--until must be after --since" in done.err, done
