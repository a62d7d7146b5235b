"""GET /v1/tasks?search=: by name, keys, id, trace, Idempotency-Key and payload; how far it came; and of one tenant only."""

import urllib.parse
import uuid

import pytest

pytestmark = [pytest.mark.tenant, pytest.mark.text("a search reads the store")]

FAR = {"target_type": "NOOP", "delay": "300d"}
TRACE = "0af7651916cd43dd8448eb211c80319c"


def search(client, text, **query):
    """All pages of a search: names, and what the last page said."""
    names, cursor = [], None
    while True:
        parts = {"search": text, **query, **({"cursor": cursor} if cursor else {})}
        answer = client.get("/v1/tasks?" + urllib.parse.urlencode(parts))
        assert answer.status == 200, answer
        names += [task["name"] for task in answer.json["tasks"]]
        cursor = answer.json["pagination"].get("next_cursor")
        if not cursor:
            assert answer.json["search"]["complete"] is True
            return names, answer.json["search"]
        assert answer.json["search"]["complete"] is False


@pytest.fixture
def found(client):
    """found(text): the names of what a search finds. What there is to find is gone after the test."""
    hook = {"url": "http://127.0.0.1:9/seventy", "method": "POST", "body": {"ref": "seventy-8"}, "headers": {"Authorization": "Bearer hidden-word"}}
    made = [client.create(name="Order-4711", concurrency_key="customer-42", **FAR),
            client.create(name="other", dedupe_key="invoice-99", **FAR),
            client.create(name="paid", payload={"Order": "abc-77", "lines": [1, 2]}, **FAR),
            client.create(name="hook", delay="300d", target_type="HTTP_CALLBACK", target_config=hook)]
    yield lambda text, **query: search(client, text, **query)[0]
    for task in made:
        client.request("DELETE", f"/v1/tasks/{task['id']}")


@pytest.mark.parametrize("text, names", [
    ("order-47", ["Order-4711"]), ("R-4711", ["Order-4711"]), ("customer-4", ["Order-4711"]), ("INVOICE-99", ["other"]), ("abc-77", []), ("nowhere", []),
    ("payload:abc-77", ["paid"]), ("payload:SEVENTY-8", ["hook"]), ("payload:lines", ["paid"]), ("payload:customer-42", []),
    ("payload:hidden-word", []), ("payload:127.0.0.1", []),
])
@pytest.mark.shared
def test_a_text_is_found_in_names_keys_and_payloads(found, text, names):
    assert found(text) == names


def test_an_id_a_trace_a_request_and_an_idempotency_key_are_found(client, found):
    key = f"key of {uuid.uuid4()}"
    made = client.post("/v1/tasks", {"name": "traced", **FAR},
                       headers={"Idempotency-Key": key, "traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "X-Request-Id": "req.17"}).json
    own = client.create(name="untraced", **FAR)
    assert found(made["id"]) == found(made["id"][:28].upper()) == ["traced"]
    assert found(TRACE) == found(TRACE.upper()) == found("req.17") == ["traced"]
    assert found(key) == ["traced"] and found(key[:-1]) == []
    assert found(key, status="FAILED") == [] and found(key, status="SCHEDULED", limit=1) == ["traced"]
    assert own["id"] and found("traced", limit=1) == ["untraced", "traced"]


def test_a_search_joins_the_other_filters_and_shows_whole_or_brief_tasks(client, found):
    client.create(name="order-in-mail", queue="mail", **FAR)
    assert found("order", queue="mail") == ["order-in-mail"]
    whole = client.get("/v1/tasks?search=payload:abc-77").json["tasks"][0]
    brief = client.get("/v1/tasks?search=payload:abc-77&view=brief").json["tasks"][0]
    assert whole["payload"]["Order"] == "abc-77" and "payload" not in brief and brief["id"] == whole["id"]


def test_a_search_says_how_far_it_came_and_goes_on(client):
    client.post("/v1/tasks/batch", [{"name": f"straw-{n}", **FAR} for n in range(450)])
    client.create(name="needle", **FAR)
    client.post("/v1/tasks/batch", [{"name": f"hay-{n}", **FAR} for n in range(450)])
    first = client.get("/v1/tasks?search=needle&limit=1").json
    assert [t["name"] for t in first["tasks"]] == ["needle"] or first["pagination"]["next_cursor"]
    assert first["search"]["looked_at"] <= 901 and first["search"]["back_to"]
    names, last = search(client, "needle")
    assert names == ["needle"] and last["complete"]
    assert len(search(client, "straw-", limit=100)[0]) == 450
    assert search(client, "straw-44", limit=2)[0] == [f"straw-{n}" for n in (*range(449, 439, -1), 44)]


@pytest.mark.parametrize("query", ["search=", "search=payload:", "search=x&page=1", f"search={'x' * 257}", "search=%00"])
@pytest.mark.shared
def test_what_cannot_be_searched_is_refused(client, query):
    assert client.get(f"/v1/tasks?{query}").status == 400


@pytest.mark.own_server
def test_a_search_finds_nothing_of_another_tenant(server, client):
    client.post("/v1/tasks", {"name": "ours", "dedupe_key": "secret-key", "payload": "secret-word", **FAR}, headers={"Idempotency-Key": "secret-idem"})
    assert client.post("/v1/tenants", {"name": "acme"}).status == 201
    key = client.post("/v1/api-keys", {"name": "acme", "scopes": ["tasks:read"], "tenant": "acme"}).json["key"]
    other = {"Authorization": f"Bearer {key}"}
    for text in ("ours", "secret-key", "payload:secret-word", "secret-idem"):
        answer = client.get(f"/v1/tasks?search={text}", headers=other)
        assert answer.status == 200 and answer.json["tasks"] == [] and answer.json["search"] == {"looked_at": 0, "back_to": None, "complete": True}
        assert len(client.get(f"/v1/tasks?search={text}").json["tasks"]) == 1, text


def test_the_command_line_searches(server, client, belfry, found):
    environment = {"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}
    listed = belfry("list", "--search", "payload:abc-77", env=environment)
    assert listed.code == 0 and "paid" in listed.out and "other" not in listed.out
    assert "Order-4711" in belfry("list", "--search", "customer-42", "--all", env=environment).out
    assert "no matching tasks" in belfry("list", "--search", "nowhere", env=environment).err
