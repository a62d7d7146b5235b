"""Tenants, their limits and their keys: nobody sees another's, limits hold however many come at once, and a key ends at once."""

import concurrent.futures

import pytest

from server import Reply, at, now_ms, until
from test_api import BAD_TEXTS, alive, assert_problem

pytestmark = pytest.mark.cluster

NOOP = {"target_type": "NOOP", "delay": "1d"}


class Tenant:
    """A tenant and a client that has its key."""

    def __init__(self, server, name, scopes=("admin",), **limits):
        self.name, self.client = name, server.client()
        if name != "default":
            answer = self.client.post("/v1/tenants", {"name": name, **limits})
            assert answer.status == 201, answer
        self.key = self.new_key(scopes)

    def new_key(self, scopes, **more):
        answer = self.client.post("/v1/api-keys", {"name": f"{self.name} key", "scopes": list(scopes), "tenant": self.name, **more})
        assert answer.status == 201, answer
        return answer.json

    def request(self, method, path, body=None, **more):
        headers = {"Authorization": f"Bearer {self.key['key']}", **more.pop("headers", {})}
        return self.client.request(method, path, body, headers=headers, **more)

    def create(self, **body):
        return self.request("POST", "/v1/tasks", {**NOOP, **body})


# ----------------------------------------------------------------------------------------------------------------------
# tenants


@pytest.mark.text("no task runs")
def test_tenants_are_made_listed_and_limited(client):
    assert [t["name"] for t in client.all("/v1/tenants", "tenants")] == ["default"]
    made = client.post("/v1/tenants", {"name": "acme", "max_pending": 5, "max_running": None})
    assert made.status == 201 and made.headers["location"] == "/v1/tenants/acme"
    assert made.json["number"] == 2 and made.json["max_pending"] == 5 and made.json["max_running"] is None
    assert_problem(client.post("/v1/tenants", {"name": "acme"}), 409)
    assert_problem(client.post("/v1/tenants", {"name": "default"}), 409)
    assert "metrics use that name" in client.post("/v1/tenants", {"name": "_other"}).json["detail"]
    assert client.post("/v1/tenants", {"name": "zoo"}).json["number"] == 3
    assert [t["name"] for t in client.all("/v1/tenants", "tenants")] == ["acme", "default", "zoo"]
    first = client.get("/v1/tenants?limit=1").json
    page = client.get("/v1/tenants?limit=1&cursor=" + first["pagination"]["next_cursor"]).json
    assert [t["name"] for t in page["tenants"]] == ["default"] and page["pagination"]["next_cursor"]
    edited = client.request("PATCH", "/v1/tenants/acme", {"max_pending": None, "creates_per_second": 7}, headers={"If-Match": '"1"'})
    assert edited.status == 200 and edited.json["max_pending"] is None and edited.json["creates_per_second"] == 7
    assert_problem(client.request("PATCH", "/v1/tenants/acme", {"max_pending": 1}, headers={"If-Match": '"1"'}), 412)
    assert client.request("PATCH", "/v1/tenants/default", {"max_recurring": 100}).json["version"] == 1
    assert_problem(client.request("PATCH", "/v1/tenants/default", {"disabled": True}), 400)
    assert_problem(client.request("PATCH", "/v1/tenants/nobody", {}), 404)
    assert_problem(client.get("/v1/tenants/nobody"), 404)


@pytest.mark.text("no task runs")
def test_numbers_are_given_once_however_many_ask(server):
    def make(i):
        client = server.client()
        answers = [client.post("/v1/tenants", {"name": f"t{i}-{n}"}) for n in range(5)]
        client.close()
        return [a.json["number"] for a in answers if a.status == 201]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        numbers = [n for made in pool.map(make, range(4)) for n in made]
    assert len(numbers) == len(set(numbers)) >= 5 and 1 not in numbers
    server.kill()
    server.start()
    assert server.client().post("/v1/tenants", {"name": "last"}).json["number"] == max(numbers) + 1


BAD_TENANTS = {
    "no name": ({}, "name"), "empty name": ({"name": ""}, "name"), "blank": ({"name": "a b"}, "name"), "colon": ({"name": "a:b"}, "name"),
    "long": ({"name": "x" * 101}, "name"), "number": ({"name": "a", "number": 7}, "number"), "negative": ({"name": "a", "max_pending": -1}, "max_pending"),
    "half": ({"name": "a", "creates_per_second": 0.5}, "creates_per_second"), "text": ({"name": "a", "payload_bytes": "1 MB"}, "payload_bytes"),
    "huge": ({"name": "a", "max_running": 10**30}, "max_running"), "disabled": ({"name": "a", "disabled": "no"}, "disabled"),
}


@pytest.mark.cluster(when="long")
@pytest.mark.parametrize("case", BAD_TENANTS)
@pytest.mark.shared
def test_a_bad_tenant_is_refused_by_its_field(client, case):
    body, field = BAD_TENANTS[case]
    problem = assert_problem(client.post("/v1/tenants", body), 400)
    assert problem["errors"][0]["field"] == field, problem
    assert len(client.all("/v1/tenants", "tenants")) == 1


@pytest.mark.cluster(when="long")
@pytest.mark.shared
def test_bad_texts_are_refused(client):
    for text in BAD_TEXTS[1:]:
        for method, path in (("POST", "/v1/tenants"), ("PATCH", "/v1/tenants/default"), ("POST", "/v1/api-keys")):
            answer = client.request(method, path, raw=text, headers={"Content-Type": "application/json"})
            assert answer.status == (413 if len(text) > 64 << 10 else 400), (method, path, text[:30], answer)
    assert alive(client)


def test_a_disabled_tenant_is_shut_out_at_once_and_its_tasks_wait(server, receiver):
    acme = Tenant(server, "acme")
    assert acme.request("GET", "/v1/tasks").status == 200
    later = acme.create(delay="1s", **receiver.target("/later")).json
    assert acme.client.request("PATCH", "/v1/tenants/acme", {"disabled": True}).status == 200
    assert_problem(acme.request("GET", "/v1/tasks"), 403)
    assert_problem(acme.create(), 403)
    other = acme.client.create(delay="2s", **receiver.target("/other"))
    acme.client.wait_for(other["id"], "COMPLETED")
    assert not receiver.to("/later"), "its task ran though it is disabled"
    assert acme.client.request("PATCH", "/v1/tenants/acme", {"disabled": False}).status == 200
    receiver.wait("/later")
    assert until(lambda: acme.request("GET", f"/v1/tasks/{later['id']}").json["status"] == "COMPLETED")


# ----------------------------------------------------------------------------------------------------------------------
# limits


@pytest.mark.text("no task runs")
def test_max_pending_holds_however_many_come_at_once(server):
    acme = Tenant(server, "acme", max_pending=10)

    def create(i):
        client = server.client()
        headers = {"Authorization": f"Bearer {acme.key['key']}"}
        answers = [client.post("/v1/tasks", {**NOOP, "name": f"{i}-{n}"}, headers=headers) for n in range(10)]
        client.close()
        return answers

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = [a for some in pool.map(create, range(6)) for a in some]
    assert [a.status for a in answers].count(201) == 10 and {a.status for a in answers} == {201, 429}
    refused = next(a for a in answers if a.status == 429)
    assert assert_problem(refused, 429)["errors"][0]["field"] == "max_pending" and int(refused.headers["retry-after"]) > 0
    assert acme.client.get("/v1/tenants/acme").json["pending"] == 10
    assert_problem(acme.request("POST", "/v1/tasks/batch", [NOOP]), 429)
    assert acme.client.create(**NOOP), "the limit is acme's alone"
    task = acme.request("GET", "/v1/tasks").json["tasks"][0]
    assert acme.request("DELETE", f"/v1/tasks/{task['id']}").status == 204
    assert_problem(acme.request("POST", "/v1/tasks/batch", [NOOP, NOOP]), 429)
    assert acme.create().status == 201 and acme.create().status == 429


@pytest.mark.text("no task runs")
def test_max_recurring_counts_those_that_recur(server):
    acme = Tenant(server, "acme", max_recurring=2)
    every = {"target_type": "NOOP", "cron_expression": "0 0 1 1 *"}
    made = [acme.request("POST", "/v1/tasks", every) for _ in range(3)]
    assert [a.status for a in made] == [201, 201, 429]
    assert acme.create().status == 201, "one that does not recur is another matter"
    assert acme.request("POST", f"/v1/tasks/{made[0].json['id']}/cancel").status == 200
    assert acme.request("POST", "/v1/recurring-tasks", every).status == 201
    usage = acme.client.get("/v1/tenants/acme").json
    assert (usage["recurring"], usage["pending"]) == (2, 3)


@pytest.mark.text("no task runs")
def test_creates_per_second_are_counted_and_told(server):
    acme = Tenant(server, "acme", creates_per_second=5)
    begin = now_ms()
    answers = [acme.create() for _ in range(40)]
    seconds = (now_ms() - begin) / 1000
    done = [a.status for a in answers].count(201)
    assert done <= 5 + 5 * seconds + 1, (done, seconds)
    refused = [a for a in answers if a.status == 429]
    assert refused and len(refused) + done == 40
    assert refused[0].headers["ratelimit-policy"] == '"creates";q=5;w=1' and refused[0].headers["ratelimit"].startswith('"creates";r=0;t=')
    assert int(refused[0].headers["retry-after"]) >= 1 and assert_problem(refused[0], 429)["errors"][0]["field"] == "creates_per_second"
    assert f"; wait {refused[0].headers['retry-after']} s" in refused[0].json["detail"]
    assert answers[0].headers["ratelimit"] == '"creates";r=4;t=1'
    assert_problem(acme.request("POST", "/v1/tasks/batch", [NOOP] * 6), 413)
    until(lambda: acme.create().status == 201, why="the bucket never filled again")
    assert acme.client.request("PATCH", "/v1/tenants/acme", {"creates_per_second": 0}).status == 200
    assert all(acme.create().status == 201 for _ in range(20)), "no limit any more"


def stopped_schedule(acme):
    """A recurring task whose runs wait."""
    assert acme.request("PUT", "/v1/queues/stopped", {"paused": True}).status in (200, 201)
    every = acme.create(interval_seconds=3600, queue="stopped", delay=None, start_time=at(now_ms() + 3600 * 1000))
    assert every.status == 201, every
    return f"/v1/tasks/{every.json['id']}/run-now"


@pytest.mark.text("no task runs")
def test_runs_by_hand_count_towards_max_pending(server):
    acme = Tenant(server, "acme", max_pending=5)
    path = stopped_schedule(acme)
    answers = [acme.request("POST", path) for _ in range(7)]
    assert [a.status for a in answers] == [200] * 4 + [429] * 3
    assert assert_problem(answers[-1], 429)["errors"][0]["field"] == "max_pending" and int(answers[-1].headers["retry-after"]) > 0
    assert acme.client.get("/v1/tenants/acme").json["pending"] == 5
    job = acme.request("POST", "/v1/tasks/bulk", {"action": "run-now", "filter": {"queue": "stopped"}}).json
    done = until(lambda: (j := acme.request("GET", f"/v1/jobs/{job['id']}").json)["state"] != "RUNNING" and j)
    assert done["failed"] == 1 and "max_pending" in str(done["failures"]), done


@pytest.mark.text("no task runs")
def test_runs_by_hand_count_towards_creates_per_second(server):
    acme = Tenant(server, "acme", creates_per_second=2)
    path = stopped_schedule(acme)
    begin = now_ms()
    answers = [acme.request("POST", path) for _ in range(20)]
    seconds = (now_ms() - begin) / 1000
    done = [a.status for a in answers].count(200)
    refused = [a for a in answers if a.status == 429]
    assert done <= 2 + 2 * seconds + 1 and len(refused) + done == 20 and refused, (done, seconds)
    assert int(refused[0].headers["retry-after"]) >= 1 and assert_problem(refused[0], 429)["errors"][0]["field"] == "creates_per_second"
    until(lambda: acme.request("POST", path).status == 200, why="the bucket never filled again")


@pytest.mark.text("no task runs")
def test_payload_bytes_are_those_of_payload_and_target(server):
    acme = Tenant(server, "acme", payload_bytes=100)
    assert acme.create(payload="x" * 90).status == 201
    problem = assert_problem(acme.create(payload="x" * 100), 413)
    assert problem["errors"][0]["field"] == "payload_bytes"
    batch = acme.request("POST", "/v1/tasks/batch", [NOOP, {**NOOP, "payload": "x" * 200}]).json
    assert batch["created"] == 1 and batch["tasks"][1]["error"]["status"] == 413
    task = acme.request("GET", "/v1/tasks").json["tasks"][0]
    assert_problem(acme.request("PATCH", f"/v1/tasks/{task['id']}", {"payload": "y" * 200}), 413)


# ----------------------------------------------------------------------------------------------------------------------
# one tenant and another


HIDDEN = "a-secret-of-default"


def fill(client):
    """One of everything that a tenant can have, and where it is."""
    task = client.create(name=HIDDEN, queue="a-queue", **NOOP)
    recurring = client.create(name=HIDDEN, queue="a-queue", cron_expression="0 0 1 1 *", target_type="NOOP")
    assert client.request("PUT", "/v1/queues/a-queue", {"paused": True, "reason": HIDDEN, "weight": 7}).status == 200
    assert client.request("PUT", "/v1/calendars/a-calendar", {"description": HIDDEN}).status == 201
    key = client.post("/v1/api-keys", {"name": HIDDEN, "scopes": ["tasks:read"]}).json
    signing_key = client.post("/v1/signing-keys", {"name": HIDDEN}).json
    return {"/v1/queues/{name}": "a-queue", "/v1/calendars/{name}": "a-calendar", "/v1/tenants/{name}": "default",
            "/v1/api-keys/{name}": key["id"], "tasks": task["id"], "recurring": recurring["id"], "key": key,
            "signing key": signing_key["id"]}


def whole(client):
    """All that can be read, but for what time changes."""
    return [client.get(path).json for path in ("/v1/tasks?limit=1000", "/v1/calendars", "/v1/api-keys", "/v1/tenants/default", "/v1/signing-keys")] + [
        [(q["name"], q["weight"], q["version"]) for q in client.get("/v1/queues").json["queues"]]]


@pytest.mark.text("no task runs")
def test_a_key_of_another_tenant_finds_and_changes_nothing_on_any_route(server):
    """Walks all that is described: reads tell nothing of what the other has, writes do nothing to it."""
    client = server.client()
    acme = Tenant(server, "acme")
    own = Tenant(server, "other")  # whose things nobody may see either
    things = fill(client)
    before = whole(client)
    paths = client.get("/openapi.json").json["paths"]
    walked = 0
    for path, item in paths.items():
        for method in item:
            if item[method]["security"] == []:
                continue
            ident = things["recurring" if path.startswith("/v1/recurring-tasks") else "signing key" if path.startswith("/v1/signing-keys") else "tasks"]
            real = path.replace("{id}", ident).replace("{name}", things.get(path, "a-queue"))
            answer = acme.request(method.upper(), real, {} if method in ("post", "put", "patch") else None)
            walked += 1
            assert answer.status != 401 and HIDDEN.encode() not in answer.body, (method, real, answer)
            makes_its_own = path in ("/v1/queues/{name}", "/v1/calendars/{name}", "/v1/workflow-definitions/{name}") and method != "get"
            if "{" in path and not makes_its_own:
                assert answer.status in (403, 404), (method, real, answer)
            if path in ("/metrics", "/v1/scheduler/status"):
                assert_problem(answer, 403)  # they tell of all
            elif "{" not in path and method == "get" and path not in ("/v1/session", "/v1/events"):  # of the caller; a stream, which test_events.py reads
                assert answer.json.get("tenant", "acme") == "acme", (real, answer)
                lists = [v for v in answer.json.values() if isinstance(v, list) and "tenant" not in answer.json]
                assert all(x in ([], ) or all(e.get("tenant", e.get("name")) in ("acme", "acme key", "a-queue", "a-calendar") for e in x)
                           for x in lists), (real, answer)
    assert walked > 40
    for path in (f"/v1/api-keys?tenant=default", "/v1/api-keys?tenant=other", f"/v1/tenants/{own.name}"):
        assert_problem(acme.request("GET", path), 404)
    for body in ({"name": "x", "scopes": ["admin"], "tenant": "default"}, {"name": "x", "scopes": ["admin"], "tenant": "nobody"}):
        assert_problem(acme.request("POST", "/v1/api-keys", body), 400)
    assert_problem(acme.request("POST", "/v1/tenants", {"name": "mine"}), 403)
    assert_problem(acme.request("PATCH", "/v1/tenants/acme", {"max_pending": 0}), 403)
    assert [t["name"] for t in acme.request("GET", "/v1/tenants").json["tenants"]] == ["acme"]
    assert whole(client) == before


# ----------------------------------------------------------------------------------------------------------------------
# keys


@pytest.mark.standalone("it looks into the embedded store's files")
def test_a_key_is_shown_once_and_kept_nowhere(server):
    client = server.client()
    made = client.post("/v1/api-keys", {"name": "ci", "scopes": ["tasks:read", "tasks:write", "tasks:read"], "expires_at": at(now_ms() + 3600_000)},
                       key="once")
    assert made.status == 201 and made.json["key"].startswith("bf_") and made.json["scopes"] == ["tasks:read", "tasks:write"]
    again = client.post("/v1/api-keys", {"name": "ci", "scopes": ["tasks:read", "tasks:write", "tasks:read"], "expires_at": made.json["expires_at"]},
                        key="once")
    assert again.status in (201, 422)
    if again.status == 201:
        assert again.json["key"] is None and again.json["id"] == made.json["id"]
    listed = client.all("/v1/api-keys", "keys")
    assert sorted(k["name"] for k in listed) == ["admin", "ci"] and all("key" not in k and "hash" not in k for k in listed)
    server.stop()
    secret = made.json["key"][13:43].encode()
    for file in server.data_dir.rglob("*"):
        if file.is_file():
            assert secret not in file.read_bytes(), file
    assert secret.decode() not in server.log()


@pytest.mark.text("no task runs")
def test_a_revoked_key_opens_nothing_from_that_moment_on(server):
    client = server.client()
    acme = Tenant(server, "acme", scopes=["tasks:read"])
    assert acme.request("GET", "/v1/tasks").status == 200
    assert_problem(client.request("DELETE", f"/v1/api-keys/{acme.key['id']}"), 404)  # not one of default's
    assert acme.request("GET", "/v1/tasks").status == 200
    assert client.request("DELETE", f"/v1/api-keys/{acme.key['id']}?tenant=acme").status == 204
    assert_problem(acme.request("GET", "/v1/tasks"), 401)
    assert_problem(client.request("DELETE", f"/v1/api-keys/{acme.key['id']}?tenant=acme"), 404)
    assert client.get("/v1/api-keys?tenant=acme").json["keys"] == []


@pytest.mark.text("no task runs")
def test_a_key_is_revoked_by_its_name_if_it_is_the_only_one(server):
    client = server.client()
    keys = [client.post("/v1/api-keys", {"name": name, "scopes": ["tasks:read"]}).json for name in ("app", "twin", "twin")]
    opens = lambda key: client.get("/v1/tasks", auth=False, headers={"Authorization": f"Bearer {key['key']}"}).status
    assert [opens(key) for key in keys] == [200] * 3
    problem = assert_problem(client.request("DELETE", "/v1/api-keys/twin"), 409)
    assert all(key["id"] in problem["detail"] for key in keys[1:])
    assert client.request("DELETE", "/v1/api-keys/app").status == 204
    assert [opens(key) for key in keys] == [401, 200, 200]
    assert client.request("DELETE", f"/v1/api-keys/{keys[1]['id']}").status == 204
    assert client.request("DELETE", "/v1/api-keys/twin").status == 204
    assert_problem(client.request("DELETE", "/v1/api-keys/twin"), 404)


@pytest.mark.text("no task runs")
def test_the_last_admin_key_is_not_revoked(server):
    client = server.client()
    problem = assert_problem(client.request("DELETE", "/v1/api-keys/admin00001"), 409)
    assert "last admin key" in problem["detail"]
    second = Tenant(server, "default")
    assert client.request("DELETE", "/v1/api-keys/admin00001").status == 204
    assert_problem(client.get("/v1/tasks"), 401)
    assert second.request("GET", "/v1/tasks").status == 200
    server.stop()
    server.start()
    assert_problem(server.client().get("/v1/tasks"), 401)  # a restart does not bring it back
    assert second.request("GET", "/v1/tasks").status == 200


@pytest.mark.text("no task runs")
def test_scopes_are_what_a_key_may_do(server):
    client = server.client()
    allowed = {"queues:read": ("GET", "/v1/queues"), "queues:write": ("PATCH", "/v1/queues/q"), "calendars:read": ("GET", "/v1/calendars"),
               "calendars:write": ("PUT", "/v1/calendars/c"), "tasks:read": ("GET", "/v1/tasks"), "admin": ("GET", "/v1/tenants")}
    for scope in allowed:
        key = client.post("/v1/api-keys", {"name": scope, "scopes": [scope]}).json["key"]
        for other, (method, path) in allowed.items():
            answer = client.request(method, path, {} if method != "GET" else None, headers={"Authorization": f"Bearer {key}"})
            assert (answer.status < 400) == (scope in (other, "admin")), (scope, method, path, answer)


@pytest.mark.text("no task runs")
def test_an_expired_key_opens_nothing(server):
    client = server.client()
    key = client.post("/v1/api-keys", {"name": "brief", "scopes": ["tasks:read"], "expires_at": at(now_ms() + 1500)}).json["key"]
    headers = {"Authorization": f"Bearer {key}"}
    assert client.get("/v1/tasks", headers=headers).status == 200
    until(lambda: client.get("/v1/tasks", headers=headers).status == 401, why="it did not expire")


BAD_KEYS = {
    "no name": ({"scopes": ["admin"]}, "name"), "no scopes": ({"name": "x"}, "scopes"), "none": ({"name": "x", "scopes": []}, "scopes"),
    "unknown": ({"name": "x", "scopes": ["tasks:read", "tasks:fly"]}, "scopes[1]"), "two in one": ({"name": "x", "scopes": ["tasks:read admin"]}, "scopes[0]"),
    "past": ({"name": "x", "scopes": ["admin"], "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"), "long": ({"name": "x" * 101, "scopes": ["admin"]}, "name"),
    "text": ({"name": "x", "scopes": "admin"}, "scopes"), "tenant": ({"name": "x", "scopes": ["admin"], "tenant": "nobody"}, "tenant"),
    "key": ({"name": "x", "scopes": ["admin"], "key": "bf_mine"}, "key"),
}


@pytest.mark.cluster(when="long")
@pytest.mark.parametrize("case", BAD_KEYS)
@pytest.mark.shared
def test_a_bad_key_is_refused_by_its_field(client, case):
    body, field = BAD_KEYS[case]
    problem = assert_problem(client.post("/v1/api-keys", body), 400)
    assert problem["errors"][0]["field"] == field, problem
    assert len(client.all("/v1/api-keys", "keys")) == 1


@pytest.mark.text("no task runs")
def test_a_key_that_expires_makes_no_key_that_lives_longer(server):
    client = server.client()
    end = at(now_ms() + 3_600_000)
    own = client.post("/v1/api-keys", {"name": "for an hour", "scopes": ["admin"], "expires_at": end}).json
    assert "expires_with_creator" not in own
    rows = ((None, end, True), (at(now_ms() + 7_200_000), end, True), (at(now_ms() + 60_000), None, False))
    for asked, expected, capped in rows:
        made = client.post("/v1/api-keys", {"name": "made", "scopes": ["admin"], "expires_at": asked},
                           headers={"Authorization": f"Bearer {own['key']}"}).json
        assert made["expires_at"] == (expected or asked) and made.get("expires_with_creator", False) == capped
    client.close()


def job_tenant(server, receiver, name):
    """A tenant with dead letters in a queue that is paused: a re-drive of them waits for the first outcome."""
    tenant = Tenant(server, name)
    receiver.answer(f"/{name}", Reply(404, body=b"broken"))
    ids = [tenant.create(queue="held", retry={"max_attempts": 1}, delay="0s", **receiver.target(f"/{name}")).json["id"] for _ in range(8)]
    until(lambda: all(tenant.request("GET", f"/v1/tasks/{i}").json["status"] == "FAILED" for i in ids), why="they did not fail")
    assert tenant.request("PUT", "/v1/queues/held", {"paused": True}).status in (200, 201)
    return tenant


def redrive(tenant, **more):
    """On the first node: the limit holds for each."""
    return tenant.request("POST", "/v1/dlq/retry", {"filter": {"queue": "held"}}, node=tenant.client.server.nodes[0], **more)


def test_a_tenant_runs_four_jobs_and_leaves_room_for_others(server, receiver):
    first, other = job_tenant(server, receiver, "many-jobs"), job_tenant(server, receiver, "few-jobs")
    jobs = [redrive(first) for _ in range(5)]
    assert [job.status for job in jobs] == [202] * 4 + [429]
    assert "4 jobs" in jobs[4].json["detail"]
    assert redrive(other).status == 202
    assert first.request("POST", f"/v1/jobs/{jobs[0].json['id']}/cancel").status in (200, 202)
    until(lambda: redrive(first).status == 202, why="no job ended")


def test_a_job_ends_with_the_key_that_created_it(server, receiver):
    tenant = job_tenant(server, receiver, "revoked-jobs")
    key = tenant.new_key(["dlq:write"])
    job = redrive(tenant, headers={"Authorization": f"Bearer {key['key']}"}).json
    assert tenant.client.request("DELETE", f"/v1/api-keys/{key['id']}?tenant=revoked-jobs").status in (200, 204)

    def stopped():
        now = tenant.request("GET", f"/v1/jobs/{job['id']}").json
        return now["state"] != "RUNNING" and now

    now = until(stopped)
    assert now["state"] == "STOPPED" and "revoked" in now["reason"]


# ----------------------------------------------------------------------------------------------------------------------
# what tasks may call


def run_once(tenant, receiver, path):
    """The state and the error of a task that calls the receiver."""
    made = tenant.request("POST", "/v1/tasks", {**receiver.target(path), "retry": {"max_attempts": 1}})
    assert made.status == 201, made
    task = until(lambda: (t := tenant.request("GET", f"/v1/tasks/{made.json['id']}").json)["status"] in ("COMPLETED", "FAILED") and t)
    return task["status"], task.get("last_error")


@pytest.mark.standalone("workers have the setting, not the rule")
def test_loopback_is_open_while_default_is_the_only_tenant(make_server, receiver):
    server = make_server(env={"BELFRY_HTTP_ALLOW_LOOPBACK": ""})
    default = Tenant(server, "default")
    assert run_once(default, receiver, "/alone") == ("COMPLETED", None)
    made = default.request("POST", "/v1/tenants", {"name": "first"})
    assert made.status == 201 and "http.allow" in made.json["notice"]
    acme = Tenant(server, "acme")
    assert "notice" not in default.request("POST", "/v1/tenants", {"name": "third"}).json
    for who in acme, default:
        status, error = run_once(who, receiver, "/together")
        assert status == "FAILED" and error.endswith("http.allow does not list it; it was allowed while 'default' was the only tenant")
    assert receiver.to("/together") == []
    assert server.log().count("loopback_refused") == 1


@pytest.mark.standalone("workers read the same list")
def test_an_operator_allows_one_port_of_loopback(make_server, receiver):
    server = make_server("--allow", f"127.0.0.1:{receiver.port}", env={"BELFRY_HTTP_ALLOW_LOOPBACK": ""})
    acme = Tenant(server, "acme")
    assert run_once(acme, receiver, "/listed") == ("COMPLETED", None)
    own = {"target_type": "HTTP_CALLBACK", "target_config": {"url": f"{server.url}/health"}, "retry": {"max_attempts": 1}}
    made = acme.request("POST", "/v1/tasks", own).json["id"]
    until(lambda: acme.request("GET", f"/v1/tasks/{made}").json["status"] == "FAILED")
