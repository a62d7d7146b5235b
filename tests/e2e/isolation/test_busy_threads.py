"""Requests that compute for seconds leave threads of the API to all others: those of other tenants, of the same tenant, and probes."""

import concurrent.futures

import pytest

from server import at, now_ms
from test_calendars import ical
from test_tenants import Tenant

pytestmark = [pytest.mark.text("no task runs"), pytest.mark.cluster]

UPLOADS = 4
ROUNDS = 4
# The server searches for its dates until its time limit of 2 s.
EXPENSIVE = ical(*["SUMMARY:rare\r\nDTSTART;VALUE=DATE:19000101\r\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU"] * 1000).encode()


class Flood:
    """Expensive uploads of these tenants, all at once, to one node."""

    def __init__(self, server, node, tenants):
        self.server, self.node = server, node
        self.pool = concurrent.futures.ThreadPoolExecutor(UPLOADS)
        self.uploads = [self.pool.submit(self.upload, tenants[i % len(tenants)], i) for i in range(UPLOADS)]

    def upload(self, tenant, number):
        client = self.server.client()
        try:
            return client.request("PUT", f"/v1/calendars/c{number}", raw=EXPENSIVE, node=self.node, timeout_s=120, headers={
                "Authorization": f"Bearer {tenant.key['key']}", "Content-Type": "text/calendar"})
        finally:
            client.close()

    def ended(self):
        return [upload for upload in self.uploads if upload.done()]

    def wait_for_one(self):
        """From now on the server computes: it has ended one, and has the others."""
        concurrent.futures.wait(self.uploads, 60, concurrent.futures.FIRST_COMPLETED)
        answer = self.ended()[0].result()
        assert answer.status == 400 and "takes too long" in answer.json["detail"], answer


def ask_cheap_things(server, node, tenant, task):
    for path in ("/v1/tasks", "/v1/tasks?limit=5", f"/v1/tasks/{task}", f"/v1/tasks/{task}/explain", "/v1/executions?limit=5", "/v1/queues"):
        answer = tenant.request("GET", path, node=node)
        assert answer.status == 200, answer
    assert tenant.request("POST", "/v1/tasks", {"target_type": "NOOP", "run_at": at(now_ms() + 86_400_000)}, node=node).status == 201
    assert tenant.request("POST", f"/v1/tasks/{task}/pause", {}, node=node).status == 200
    assert tenant.request("POST", f"/v1/tasks/{task}/resume", {}, node=node).status == 200
    for path in ("/ready", "/health"):
        assert tenant.client.get(path, auth=False, node=node).status == 200


@pytest.mark.parametrize("flooding", [1, 3])
def test_expensive_requests_do_not_hold_up_cheap_ones(server, flooding):
    """All rounds end while the server still computes. If one request waited behind the uploads, all of them would have ended."""
    node = server.nodes[-1]
    tenants = [Tenant(server, f"flood-{i}") for i in range(flooding)]
    other = Tenant(server, "other")
    tasks = {tenant: tenant.create().json["id"] for tenant in (other, tenants[0])}
    for tenant, task in tasks.items():  # its key is known from now on
        assert tenant.request("GET", f"/v1/tasks/{task}", node=node).status == 200
    flood = Flood(server, node, tenants)
    flood.wait_for_one()
    for _ in range(ROUNDS):
        for tenant, task in tasks.items():
            ask_cheap_things(server, node, tenant, task)
    assert len(flood.ended()) < UPLOADS, "all uploads ended before the cheap requests did"
    assert all(upload.result(120).status == 400 for upload in flood.uploads)


def test_expensive_requests_take_turns_by_tenant(server):
    node = server.nodes[-1]
    tenant, other = Tenant(server, "flood"), Tenant(server, "other")
    assert other.request("GET", "/v1/tasks", node=node).status == 200
    flood = Flood(server, node, [tenant])
    flood.wait_for_one()
    answer = other.request("POST", "/v1/preview", {"cron_expression": "0 9 * * *"}, node=node, timeout_s=120)
    assert answer.status == 200, answer
    assert len(flood.ended()) < UPLOADS, "its turn came after all uploads, which were there before"
    assert all(upload.result(120).status == 400 for upload in flood.uploads)
