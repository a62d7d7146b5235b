"""Requests that wait for their answer (leases, the end of a run) while their API key is revoked, expires, or its tenant is disabled: none gets a task
or a result any more, whichever node it waits on."""

import concurrent.futures

import pytest

from server import at, now_ms
from test_api import assert_problem
from test_tenants import Tenant

pytestmark = [pytest.mark.text("no task runs"), pytest.mark.cluster]

WAIT_S = 40
END_S = WAIT_S / 2  # all end before, however busy the machine is
RUN = {"definition": {"steps": [{"name": "ok", "await": {"signal": "ok"}}]}}


class Waiting:
    """A tenant with two keys: one waits, the other makes what it waits for."""

    def __init__(self, server, name="acme", **key):
        self.server = server
        self.tenant = Tenant(server, name)
        self.admin = {"headers": {"Authorization": f"Bearer {self.tenant.key['key']}"}}
        self.key = self.tenant.new_key(["tasks:lease", "workflows:read"], **key)
        self.head = {"Authorization": f"Bearer {self.key['key']}"}
        self.client = self.tenant.client
        self.pool = concurrent.futures.ThreadPoolExecutor(8)

    def begin(self, node, method, path, body=None):

        def one():
            client = self.server.client()
            try:
                return client.request(method, path, body, headers=self.head, node=node)
            finally:
                client.close()

        return self.pool.submit(one)

    def ask(self, node, method, path, body=None):
        """Begins to wait; returns once it does: by then the node has answered others."""
        future = self.begin(node, method, path, body)
        for _ in range(3):
            assert not concurrent.futures.wait([future], 0.05).done, future.result()
            assert self.client.get("/v1/queues", node=node, **self.admin).status == 200
        return future

    def lease(self, node, queue="work"):
        return self.ask(node, "POST", "/v1/leases", {"queue": queue, "wait_seconds": WAIT_S})

    def make(self, queue="work"):
        answer = self.client.post("/v1/tasks", {"target_type": "WORKER", "queue": queue}, **self.admin)
        assert answer.status == 201, answer
        return answer.json["id"]

    def run(self):
        answer = self.client.post("/v1/workflows", RUN, **self.admin)
        assert answer.status == 201, answer
        return answer.json["id"]

    def revoke(self, node=None):
        answer = self.client.request("DELETE", f"/v1/api-keys/{self.key['id']}?tenant={self.tenant.name}", node=node)
        assert answer.status == 204, answer
        return answer.headers.get("belfry-applied") != "some-nodes"

    def disable(self, is_disabled, node=None):
        answer = self.client.request("PATCH", f"/v1/tenants/{self.tenant.name}", {"disabled": is_disabled}, node=node)
        assert answer.status == 200, answer

    def is_untouched(self, task):
        shown = self.client.get(f"/v1/tasks/{task}", **self.admin).json
        attempts = self.client.get(f"/v1/tasks/{task}/executions", **self.admin).json["executions"]
        return shown["status"] == "SCHEDULED" and attempts == []


@pytest.mark.cluster(when="always")
def test_no_lease_is_taken_for_a_key_that_was_revoked(server):
    waiting = Waiting(server)
    asked = [waiting.lease(node) for node in server.nodes]
    other = waiting.tenant.new_key(["tasks:lease"])
    is_applied = waiting.revoke(server.nodes[0])
    if not is_applied:
        concurrent.futures.wait(asked, END_S)
    task = waiting.make()
    for answer in asked:
        assert "was revoked" in assert_problem(answer.result(END_S), 401)["detail"]
    assert waiting.is_untouched(task)
    waiting.head = {"Authorization": f"Bearer {other['key']}"}
    answer = waiting.client.post("/v1/leases", {"queue": "work", "wait_seconds": 20}, headers=waiting.head)
    assert [x["task"]["id"] for x in answer.json["leases"]] == [task]


def test_who_waits_with_another_key_goes_on(server):
    """A change of keys lets every waiting request be checked again."""
    node = server.nodes[-1]
    revoked, allowed = Waiting(server, "acme"), Waiting(server, "other")
    asked = [allowed.lease(node) for _ in range(2)]
    ended = revoked.lease(node)
    revoked.revoke(server.nodes[0])
    assert_problem(ended.result(END_S), 401)
    assert not any(answer.done() for answer in asked)
    made = {allowed.make() for _ in asked}
    assert {x["task"]["id"] for answer in asked for x in answer.result(END_S).json["leases"]} == made


@pytest.mark.cluster(when="always")
def test_the_result_of_a_run_is_not_told_to_a_key_that_was_revoked(server):
    waiting = Waiting(server)
    run = waiting.run()
    asked = [waiting.ask(node, "GET", f"/v1/workflows/{run}?wait_seconds={WAIT_S}") for node in server.nodes]
    if not waiting.revoke(server.nodes[0]):
        concurrent.futures.wait(asked, END_S)
    assert waiting.client.post(f"/v1/workflows/{run}/signals/ok", {}, **waiting.admin).status in (200, 201, 202)
    for answer in asked:
        assert "was revoked" in assert_problem(answer.result(END_S), 401)["detail"]


@pytest.mark.cluster(when="always")
def test_a_disabled_tenant_ends_what_waits(server):
    waiting = Waiting(server)
    run = waiting.run()
    asked = [waiting.lease(node) for node in server.nodes]
    asked += [waiting.ask(node, "GET", f"/v1/workflows/{run}?wait_seconds={WAIT_S}") for node in server.nodes]
    waiting.disable(True, server.nodes[0])
    for answer in asked:
        assert "is disabled" in assert_problem(answer.result(END_S), 403)["detail"]
    waiting.disable(False, server.nodes[-1])
    task = waiting.make()
    assert waiting.is_untouched(task)


def test_what_waits_ends_when_its_key_expires(server):
    waiting = Waiting(server, expires_at=at(now_ms() + 2000))
    node = server.nodes[-1]
    run = waiting.run()
    asked = [waiting.begin(node, "POST", "/v1/leases", {"queue": "work", "wait_seconds": WAIT_S}),
             waiting.begin(node, "GET", f"/v1/workflows/{run}?wait_seconds={WAIT_S}")]
    for answer in asked:
        assert "has expired" in assert_problem(answer.result(END_S), 401)["detail"]
    task = waiting.make()
    assert waiting.is_untouched(task)
