"""What HTTP clients expect beside the API itself: HEAD, OPTIONS, conditional GET, Accept, gzip, CORS, Server-Timing."""

import re

import pytest

import openapi
from server import until

pytestmark = [pytest.mark.tenant, pytest.mark.text("manners of HTTP")]

ORIGIN = "https://console.example.com"


def one_of_each(client):
    """Paths of single resources that exist."""
    task = client.create(target_type="NOOP", delay="1h")["id"]
    client.request("PUT", "/v1/queues/q", {"max_concurrent": 3})
    return [f"/v1/tasks/{task}", "/v1/queues/q", "/v1/tenants/default", "/openapi.json"]


@pytest.mark.own_server
def test_head_is_get_without_a_body(client):
    for path in [*one_of_each(client), "/v1/tasks", "/v1/queues", "/health", "/ready", "/v1/scheduler/status", "/v1/api-keys"]:
        get, head = client.get(path), client.request("HEAD", path)
        assert (head.status, head.body) == (get.status, b""), path
        assert head.headers["content-type"] == get.headers["content-type"] and int(head.headers["content-length"]) > 0, path


@pytest.mark.shared
def test_options_lists_the_methods_of_every_path(client):
    for path, item in openapi.description()["paths"].items():
        path = path.replace("{id}", "01920000-0000-7000-8000-000000000001").replace("{other}", "01920000-0000-7000-8000-000000000001")
        answer = client.request("OPTIONS", re.sub(r"\{\w+\}", "x", path), auth=False)
        assert answer.status == 204 and not answer.body, path
        expected = {method.upper() for method in item if method in ("get", "post", "put", "patch", "delete")} | {"OPTIONS"}
        assert set(answer.headers["allow"].split(", ")) >= expected, path
    assert client.request("OPTIONS", "*", auth=False).headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.own_server
def test_conditional_get(client):
    for path in one_of_each(client):
        first = client.get(path)
        tag = first.headers["etag"]
        for header in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            same = client.get(path, headers={"If-None-Match": header})
            assert (same.status, same.body) == (304, b"") and same.headers["etag"] == tag, (path, header)
        for header in ('"x"', tag.strip('"'), ""):
            assert client.get(path, headers={"If-None-Match": header}).json == first.json, (path, header)
        assert client.request("HEAD", path, headers={"If-None-Match": tag}).status == 304


def test_a_change_of_state_is_no_304(client):
    """The version of a task counts edits; its ETag must change with its state all the same."""
    path = f"/v1/tasks/{client.create(target_type='NOOP', delay='1s')['id']}"
    before = client.get(path)
    until(lambda: client.get(path).json["status"] == "COMPLETED")
    after = client.get(path, headers={"If-None-Match": before.headers["etag"]})
    assert after.status == 200 and after.json["version"] == before.json["version"] and after.headers["etag"] != before.headers["etag"]


def test_if_match_takes_the_tag_of_a_get(client):
    path = f"/v1/tasks/{client.create(target_type='NOOP', delay='1h')['id']}"
    tag = client.get(path).headers["etag"]
    assert client.request("PATCH", path, {"name": "n"}, headers={"If-Match": tag}).status == 200
    assert client.request("PATCH", path, {"name": "m"}, headers={"If-Match": tag}).status == 412


@pytest.mark.parametrize("accept, status", [
    ("application/json", 200), ("*/*", 200), ("application/*", 200), ("APPLICATION/JSON; charset=utf-8", 200), ("text/html, */*;q=0.1", 200),
    ("text/html;q=0.9, application/json;q=0.001", 200), ("", 200),
    ("text/html", 406), ("application/json;q=0", 406), ("*/*, application/json;q=0.000", 406), ("application/*;q=0, */*", 406),
    ("application/jso", 406), ("application/", 406), ("json", 406)])
@pytest.mark.shared
def test_accept(client, accept, status):
    answer = client.get("/v1/tasks", headers={"Accept": accept})
    assert answer.status == status
    if status == 406:
        assert answer.json["type"] == "urn:belfry:problem:not-acceptable" and "application/json" in answer.json["detail"]
        assert client.post("/v1/tasks", {"target_type": "NOOP"}, headers={"Accept": accept}).status == 406  # and nothing is written
        assert not client.get("/v1/tasks?limit=1").json["tasks"]


@pytest.mark.shared
def test_metrics_are_text(client):
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
    assert client.get("/metrics", headers={"Accept": prometheus}).status == 200
    assert client.get("/metrics", headers={"Accept": "application/json"}).status == 406


@pytest.mark.parametrize("encoding, compressed", [
    ("gzip", True), ("deflate, gzip;q=0.5", True), ("*", True), ("GZIP", True),
    ("identity", False), ("gzip;q=0", False), ("*, gzip;q=0", False), ("br", False)])
def test_gzip_where_it_is_allowed(client, encoding, compressed):
    task = client.create(target_type="NOOP", delay="1h", payload={"text": "x" * 3000})
    for path in (f"/v1/tasks/{task['id']}", "/v1/tasks", "/openapi.json"):
        plain = client.get(path)
        answer = client.get(path, headers={"Accept-Encoding": encoding})
        assert answer.headers["vary"] == "Accept-Encoding" == plain.headers["vary"]
        assert (answer.headers.get("content-encoding") == "gzip") == compressed, path
        assert answer.json == plain.json and (len(answer.body) < len(plain.body)) == compressed
        if "etag" in plain.headers:
            tag = answer.headers["etag"]
            assert (tag != plain.headers["etag"]) == compressed  # other bytes, another strong tag
            again = client.get(path, headers={"Accept-Encoding": encoding, "If-None-Match": tag})
            assert again.status == 304 and again.headers["etag"] == tag
            if "/v1" in path:
                assert client.request("PATCH", path, {"name": "n"}, headers={"If-Match": tag}).status == 200
    small = client.get("/health", headers={"Accept-Encoding": encoding})
    assert "content-encoding" not in small.headers


def test_large_answers_of_writes_are_compressed_up_to_a_size(client):
    bodies = {n: [{"target_type": "NOOP", "delay": "1h"}] * n for n in (20, 500)}
    for n, body in bodies.items():
        answer = client.request("POST", "/v1/tasks/batch", body, headers={"Accept-Encoding": "gzip"})
        compressed = answer.headers.get("content-encoding") == "gzip"
        assert answer.status in (200, 201) and (compressed or len(answer.body) > 64 << 10)
        assert answer.json


@pytest.mark.shared
def test_no_cors_unless_origins_are_named(client):
    for method in ("GET", "OPTIONS"):
        answer = client.request(method, "/v1/tasks", headers={"Origin": ORIGIN, "Access-Control-Request-Method": "POST"})
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_cors_for_the_origins_that_are_named(make_server):
    server = make_server(env={"BELFRY_API_CORS_ORIGINS": f"http://localhost:3000 {ORIGIN}"})
    client = server.client()
    ahead = client.request("OPTIONS", "/v1/tasks", auth=False, headers={
        "Origin": ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"})
    assert ahead.status == 204 and ahead.headers["access-control-allow-origin"] == ORIGIN
    assert "POST" in ahead.headers["access-control-allow-methods"].split(", ")
    assert {"Authorization", "Content-Type", "Idempotency-Key", "If-Match"} <= set(ahead.headers["access-control-allow-headers"].split(", "))
    assert int(ahead.headers["access-control-max-age"]) > 0
    answers = [ahead, client.get("/v1/tasks", headers={"Origin": ORIGIN}), client.get("/v1/tasks", headers={"Origin": ORIGIN}, auth=False)]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == ORIGIN and "Origin" in answer.headers["vary"]
        assert "access-control-allow-credentials" not in answer.headers
    assert [a.status for a in answers] == [204, 200, 401]
    assert "ETag" in answers[1].headers["access-control-expose-headers"].split(", ")
    for origin in ("https://evil.example", ORIGIN + ".evil.example", "null", "*", "", ORIGIN.upper()):
        answer = client.get("/v1/tasks", headers={"Origin": origin})
        assert answer.status == 200 and "access-control-allow-origin" not in answer.headers and "Origin" in answer.headers["vary"], origin
    client.close()


@pytest.mark.parametrize("origins", ["*", "console.example.com", "https://a.example/", "https://", "https://A.example", "https://a.example, https://b.example"])
def test_wrong_origins_are_refused_at_the_start(belfry, tmp_path, origins):
    done = belfry("serve", "--data-dir", tmp_path, "--listen", "127.0.0.1:0", env={"BELFRY_API_CORS_ORIGINS": origins})
    assert done.code == 2 and "api.cors_origins" in done.err, done


def test_server_timing_on_request(client):
    asked = {"Belfry-Timing": "1"}
    for answer in (client.get("/v1/tasks", headers=asked), client.post("/v1/tasks", {"target_type": "NOOP", "delay": "1h"}, headers=asked),
                   client.get("/health", headers=asked)):
        parts = dict(re.fullmatch(r"(\w+);dur=(\d+\.\d+)", part).groups() for part in answer.headers["server-timing"].split(", "))
        assert set(parts) == {"auth", "body", "queue", "store", "total"}
        total = float(parts.pop("total"))
        assert total > 0 and sum(map(float, parts.values())) <= total + 0.01
    assert "server-timing" not in client.get("/v1/tasks").headers
    assert "server-timing" not in client.get("/v1/tasks", headers=asked, auth=False).headers


def test_a_compressed_body_is_refused(client):
    task = {"target_type": "NOOP", "delay": "1d"}
    for coding, status in (("gzip", 415), ("identity, gzip", 415), ("identity", 201), ("Identity", 201)):
        answer = client.post("/v1/tasks", task, headers={"Content-Encoding": coding})
        assert answer.status == status and (status == 201 or "Content-Encoding" in answer.json["detail"]), answer
