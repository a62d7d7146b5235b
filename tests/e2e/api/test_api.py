"""Every route of the real server with valid, invalid, oversized and hostile input. What fires, and when, is in test_firing.py."""

import concurrent.futures
import json
import os
import shutil
import socket
import stat
import subprocess
import threading
import uuid

import pytest

import openapi
from server import Reply, at, now_ms, to_ms, until

pytestmark = pytest.mark.tenant

NOBODY = str(uuid.UUID(int=0x0190_0000_0000_7000_8000_000000000001))
ONE_TASK = ["cancel", "pause", "resume", "run-now", "retry", "force-complete"]
READS = ["/v1/scheduler/status", "/v1/dlq", "/v1/tasks", f"/v1/tasks/{NOBODY}", f"/v1/tasks/{NOBODY}/executions",
         f"/v1/tasks/{NOBODY}/occurrences", "/v1/recurring-tasks", f"/v1/recurring-tasks/{NOBODY}", "/metrics"]
WRITES = [("POST", "/v1/tasks"), ("POST", "/v1/tasks/batch"), ("POST", "/v1/tasks/recurring"), ("POST", "/v1/recurring-tasks"),
          ("PATCH", f"/v1/tasks/{NOBODY}"), ("DELETE", f"/v1/tasks/{NOBODY}"), ("PATCH", f"/v1/recurring-tasks/{NOBODY}"),
          ("DELETE", f"/v1/recurring-tasks/{NOBODY}"), *(("POST", f"/v1/tasks/{NOBODY}/{a}") for a in ONE_TASK),
          *(("POST", f"/v1/recurring-tasks/{NOBODY}/{a}") for a in ("pause", "resume", "trigger-now"))]
RESOURCES = {"/v1/queues": "PUT PATCH DELETE", "/v1/calendars": "PUT DELETE", "/v1/tenants": "PATCH", "/v1/api-keys": "DELETE"}
READS += ["/v1/audit", "/v1/breakers", "/v1/events", "/v1/tasks/names", f"/v1/tasks/{NOBODY}/dependencies"]
WRITES += [("POST", f"/v1/breakers/{NOBODY}/close"), ("POST", f"/v1/tasks/{NOBODY}/dependencies"),
           ("DELETE", f"/v1/tasks/{NOBODY}/dependencies/{NOBODY}")]
READS += [*RESOURCES, *(f"{r}/nobody" for r in RESOURCES if r != "/v1/api-keys")]
WRITES += [("POST", "/v1/tenants"), ("POST", "/v1/api-keys"), *((m, f"{r}/nobody") for r, methods in RESOURCES.items() for m in methods.split())]
READS += [f"/v1/tasks/{NOBODY}/upcoming", f"/v1/tasks/{NOBODY}/explain", "/v1/executions", "/v1/upcoming", f"/v1/dlq/{NOBODY}", "/v1/jobs", f"/v1/jobs/{NOBODY}"]
WRITES += [("POST", "/v1/tasks/bulk"), ("POST", "/v1/dlq/retry"), ("POST", f"/v1/dlq/{NOBODY}/retry"), ("POST", f"/v1/dlq/{NOBODY}/archive"),
           ("POST", f"/v1/jobs/{NOBODY}/cancel"), ("POST", "/v1/preview")]
READS += ["/v1/checks", "/v1/stats", "/v1/alerts", "/v1/workers", f"/v1/workers/{NOBODY}"]
WRITES += [("POST", "/v1/leases"), *(("POST", f"/v1/leases/nobody/{a}") for a in ("heartbeat", "complete", "fail"))]
READS += ["/v1/workflow-definitions", "/v1/workflow-definitions/nobody", "/v1/workflows", f"/v1/workflows/{NOBODY}",
          f"/v1/workflows/{NOBODY}/status", f"/v1/workflows/{NOBODY}/steps", f"/v1/workflows/{NOBODY}/steps/nobody"]
WRITES += [("PUT", "/v1/workflow-definitions/nobody"), ("DELETE", "/v1/workflow-definitions/nobody"), ("POST", "/v1/workflows"),
           *(("POST", f"/v1/workflows/{NOBODY}/{a}") for a in ("cancel", "pause", "resume", "retry", "rerun", "signals/nobody")),
           *(("POST", f"/v1/workflows/{NOBODY}/steps/nobody/{a}") for a in ("run-now", "force-complete", "skip"))]
READS += [f"{r}{i}" for r in ("/v1/notification-settings", "/v1/incidents", "/v1/notifications") for i in ("", f"/{NOBODY}")]
WRITES += [("POST", "/v1/notification-settings"), *((m, f"/v1/notification-settings/{NOBODY}") for m in ("PATCH", "DELETE")),
           ("POST", f"/v1/notification-settings/{NOBODY}/test"), *(("POST", f"/v1/incidents/{NOBODY}/{a}") for a in ("ack", "mute", "unmute")),
           ("POST", f"/v1/notifications/{NOBODY}/resend")]
READS += ["/v1/signing-keys", f"/v1/signing-keys/{NOBODY}"]
WRITES += [("POST", "/v1/signing-keys"), ("DELETE", f"/v1/signing-keys/{NOBODY}"), ("POST", f"/v1/signing-keys/{NOBODY}/rotate")]
PUBLIC = ["/health", "/ready", "/openapi.json"]
READS += ["/v1/session"]
WRITES += [("DELETE", "/v1/session"), ("POST", "/v1/session/codes")]
LOGIN = ("POST", "/v1/session")


@pytest.fixture
def far(receiver):
    """The body of a task that does not fire during a test."""
    return {"name": "far", "delay": "1d", **receiver.target("/far")}


def assert_problem(answer, status):
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert problem["status"] == status and problem["type"] and problem["title"]
    return problem


def alive(client):
    return client.get("/health").status == 200 and client.get("/v1/tasks").status == 200


# ----------------------------------------------------------------------------------------------------------------------
# the server as such


@pytest.mark.text("no task runs")
@pytest.mark.own_server
def test_health_ready_and_status(client, server, far):
    assert client.get("/health", auth=False).json["status"] == "ok"
    assert client.get("/ready", auth=False).json["status"] == "ready"
    client.create(**far)
    status = client.get("/v1/scheduler/status").json
    assert status["tasks"]["SCHEDULED"] == 1 and status["due"] == 0 and status["version"]
    assert abs(to_ms(status["time"]) - now_ms()) < 10_000


@pytest.mark.text("no task runs")
@pytest.mark.own_server
def test_the_admin_key_is_the_owners_alone_and_stays(server):
    key = server.key
    assert stat.S_IMODE(os.stat(server.data_dir / "admin.key").st_mode) == 0o600
    assert key.startswith("bf_")
    server.stop()
    server.start()
    assert server.key == key and server.client().get("/v1/tasks").status == 200
    assert server.log().count(key) == 1, "shown once"


@pytest.mark.standalone("one process owns a data directory; a database has many nodes")
@pytest.mark.own_server
def test_a_second_server_on_the_same_directory_is_refused(server, belfry):
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(server.data_dir))
    assert done.code == 1 and "data0" in done.err, done
    assert server.client().get("/health").status == 200


@pytest.mark.standalone("it damages the embedded store's file")
@pytest.mark.own_server
def test_a_damaged_database_stops_the_start_with_a_clear_message(server, belfry):
    server.stop()
    files = [f for f in server.data_dir.iterdir() if f.suffix == ".db" or "sqlite" in f.name]
    assert len(files) == 1, list(server.data_dir.iterdir())
    files[0].write_bytes(b"this is no database" * 1000)
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(server.data_dir))
    assert done.code == 1 and files[0].name in done.err, done


@pytest.mark.standalone("each process counts for itself")
@pytest.mark.own_server
def test_metrics_are_what_prometheus_expects(client, receiver):
    client.wait_for(client.create(name="m", **receiver.target("/m"))["id"], "COMPLETED")
    answer = client.get("/metrics")
    text = answer.body.decode()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for line in ("belfry_tasks_scheduled_total 1", "belfry_tasks_executed_total 1", "belfry_tasks_failed_total 0",
                 "belfry_execution_delay_seconds_count 1"):
        assert f"\n{line}\n" in text
    for name in ("belfry_queue_depth", "belfry_queue_depth_age_seconds", "belfry_worker_utilization"):
        assert f"\n{name} " in text
    if not shutil.which("promtool"):
        pytest.skip("promtool is missing: the metrics were not judged")
    judged = subprocess.run(["promtool", "check", "metrics"], input=answer.body, capture_output=True, check=False)
    assert judged.returncode == 0, judged


@pytest.mark.text("no task runs")
@pytest.mark.own_server
def test_the_id_of_a_request_comes_back_from_every_route(client):
    """Whether it is answered or refused, with or without a valid key; a refusal has it in its body, too."""
    routes = [*WRITES, LOGIN, *(("GET", path) for path in READS + PUBLIC), ("GET", "/nowhere"), ("PUT", "/health")]
    for method, path in routes:
        if (method, path) == ("DELETE", "/v1/session"):
            continue  # it needs a cookie
        for auth in (True, False):
            request_id = f"{method}-{auth}-{path.strip('/')[-100:]}"
            answer = client.request(method, path, headers={"X-Request-Id": request_id}, auth=auth)
            assert answer.headers["x-request-id"] == request_id, (method, path, answer)
            if answer.status >= 400:
                assert answer.json["request_id"] == request_id, (method, path, answer)
    refused = client.get("/v1/tasks", headers={"X-Request-Id": "a b"}, auth=False)
    assert "x-request-id" not in refused.headers and "request_id" not in refused.json


@pytest.mark.text("no task runs")
@pytest.mark.own_server
def test_openapi_describes_every_route_and_nothing_else(client):
    paths = client.get("/openapi.json").json["paths"]
    described = {(m.upper(), p.replace("{id}", NOBODY).replace("{other}", NOBODY).replace("{name}", "nobody")) for p, item in paths.items() for m in item if m in
                 ("get", "post", "patch", "delete", "put")}
    assert described == {*WRITES, LOGIN, *(("GET", p) for p in READS + PUBLIC)}
    for method, path in described:
        answer = client.request(method, path)
        assert answer.status != 405 and b"there is no route at this path" not in answer.body, (method, path, answer)


@pytest.mark.shared
def test_a_path_that_is_not_there_and_a_method_that_is_not(client):
    for path in ("/", "/v1", "/v1/nothing", "/v1/tasks/", "/v1/tasks/not-an-id", "/v1/tasks/../tasks", f"/v1/tasks/{NOBODY}/fly", "//v1/tasks"):
        assert_problem(client.get(path), 404)
    answer = client.request("PUT", "/v1/tasks")
    assert_problem(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD, POST, OPTIONS"
    assert client.request("OPTIONS", "/v1/tasks").status == 204
    head = client.request("HEAD", "/v1/tasks")
    assert head.status == 200 and head.body == b""


# ----------------------------------------------------------------------------------------------------------------------
# who may


@pytest.mark.parametrize("key", [None, "", "Bearer", "Bearer ", "Bearer x", "Basic YTpi", "bf_x", "Bearer bf_admin00001" + "A" * 31,
                                 "Bearer " + "bf_" * 2000])
@pytest.mark.shared
def test_without_a_good_key_nothing_is_told_or_done(client, far, key):
    headers = {} if key is None else {"Authorization": key}
    for path in READS:
        assert_problem(client.get(path, auth=False, headers=headers), 401)
    for method, path in WRITES:
        assert_problem(client.request(method, path, far, auth=False, headers=headers), 401)
    assert client.get("/v1/tasks").json["tasks"] == []


@pytest.mark.shared
def test_a_key_with_one_letter_changed_opens_nothing(server):
    client, key = server.client(), server.key
    for i in (4, len(key) // 2, len(key) - 1):
        changed = key[:i] + ("a" if key[i] != "a" else "b") + key[i + 1:]
        assert_problem(client.get("/v1/tasks", auth=False, headers={"Authorization": f"Bearer {changed}"}), 401)


# ----------------------------------------------------------------------------------------------------------------------
# bodies


BAD_BODIES = {
    "no target": {"name": "x"},
    "unknown field": {"nmae": "x"},
    "unknown target": {"target_type": "TELEPATHY"},
    "number as name": {"name": 5},
    "control in name": {"name": "a\x07b"},
    "name too long": {"name": "x" * 5000},
    "priority": {"priority": 10},
    "priority text": {"priority": "high"},
    "queue": {"queue": "a b"},
    "time": {"run_at": "tomorrow"},
    "time without zone": {"run_at": "2030-01-01T00:00:00"},
    "delay": {"delay": "soon"},
    "negative delay": {"delay": "-5s"},
    "two times": {"run_at": "2030-01-01T00:00:00Z", "delay": "5s"},
    "cron": {"cron_expression": "61 * * * *"},
    "cron twice": {"cron_expression": "* * * * *", "interval_seconds": 5},
    "zone": {"cron_expression": "* * * * *", "time_zone": "Mars/Olympus"},
    "zone path": {"cron_expression": "* * * * *", "time_zone": "../../etc/passwd"},
    "interval": {"interval_seconds": 0},
    "interval huge": {"interval_seconds": 10**30},
    "end before start": {"interval_seconds": 5, "start_time": "2030-01-02T00:00:00Z", "end_date": "2030-01-01T00:00:00Z"},
    "cron of a one-time": {"type": "ONE_TIME", "cron_expression": "* * * * *"},
    "attempts": {"retry": {"max_attempts": 0}},
    "retry unknown": {"retry": {"tries": 3}},
    "retry not an object": {"retry": 3},
    "delivery": {"delivery": "PERHAPS"},
    "timeout": {"timeout_ms": -1},
    "url scheme": {"target_config": {"url": "file:///etc/passwd"}},
    "url nothing": {"target_config": {"url": ""}},
    "url control": {"target_config": {"url": "http://127.0.0.1/\r\nX: y"}},
    "header split": {"target_config": {"url": "http://127.0.0.1/", "headers": {"X-A": "b\r\nX-C: d"}}},
    "header ours": {"target_config": {"url": "http://127.0.0.1/", "headers": {"webhook-id": "mine"}}},
    "header host": {"target_config": {"url": "http://127.0.0.1/", "headers": {"Host": "elsewhere"}}},
    "metadata": {"metadata": ["not", "an", "object"]},
}


@pytest.mark.parametrize("change", BAD_BODIES)
@pytest.mark.shared
def test_a_bad_field_is_refused_by_its_name(client, receiver, change):
    body = {**({} if change == "no target" else receiver.target("/x")), **BAD_BODIES[change]}
    problem = assert_problem(client.post("/v1/tasks", body), 400)
    assert problem["errors"] and all(e["field"] and e["message"] for e in problem["errors"]), problem
    assert client.get("/v1/tasks").json["tasks"] == []


BAD_TEXTS = [b"", b"{", b"[]", b"null", b"5", b'"x"', b'{"name": "x",}', b'{"name": "x"} {}', b"\xff\xfe{}", b'{"name": "\xff"}',
             b'{"name": "\\ud800"}', b'{"name": "a\\u0000b"}', b'{"name": "a", "name": "b"}', b"[" * 100_000, b'{"a":' * 50_000,
             b'{"priority": 1e999}', b'{"priority": 5.5}', b'{"priority": 99999999999999999999}', b"\xef\xbb\xbf{}", b"\0" * 100]


@pytest.mark.parametrize("text", BAD_TEXTS, ids=lambda t: repr(t[:24]))
@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/recurring-tasks"])
@pytest.mark.shared
def test_what_is_no_task_in_json_is_refused(client, path, text):
    assert_problem(client.post(path, raw=text, headers={"Content-Type": "application/json"}), 400)
    assert alive(client)


@pytest.mark.text("no task runs")
def test_bad_texts_are_refused_everywhere_else_too(client, far):
    task = client.create(**far)
    for text in BAD_TEXTS[1:]:
        for method, path in (("PATCH", f"/v1/tasks/{task['id']}"), ("POST", f"/v1/tasks/{task['id']}/cancel"), ("POST", "/v1/tasks/batch")):
            answer = client.request(method, path, raw=text, headers={"Content-Type": "application/json"})
            assert answer.status == 400, (method, path, text[:30], answer)
    assert client.task(task["id"])["version"] == 1


@pytest.mark.shared
def test_other_media_types_are_refused(client, far):
    raw = json.dumps(far).encode()
    for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x"):
        assert_problem(client.post("/v1/tasks", raw=raw, headers={"Content-Type": kind}), 415)


@pytest.mark.text("no task runs")
def test_a_task_comes_back_as_it_was_sent(client, receiver):
    sent = {"name": "Täglich ☂ 日本", "task_type": "report.daily", "queue": "mail", "priority": 8, "run_at": "2031-02-10T08:00:00.250Z",
            "delivery": "AT_MOST_ONCE", "timeout_ms": 1234, "metadata": {"team": "a", "deep": [1, {"x": None}]}, "payload": {"big": 9007199254740993},
            "retry": {"max_attempts": 7, "backoff": "FIXED", "base_delay_ms": 5, "max_delay_ms": 50, "jitter": "NONE",
                      "rules": [{"on": ["503", "timeout"], "max_attempts": 3, "base_delay_ms": 5000}]},
            **receiver.target("/x", headers={"X-Team": "a"}, body="plain text")}
    answer = client.post("/v1/tasks", sent)
    assert answer.status == 201, answer
    assert answer.headers["location"] == f"/v1/tasks/{answer.json['id']}" and answer.headers["etag"] == '"1"'
    for task in (answer.json, client.task(answer.json["id"]), client.get("/v1/tasks").json["tasks"][0]):
        for name, value in sent.items():
            assert task[name] == value, name


# ----------------------------------------------------------------------------------------------------------------------
# too much


@pytest.mark.text("no task runs")
def test_a_body_that_is_too_large_is_refused_and_the_next_request_is_served(client, far):
    for path, limit in (("/v1/tasks", 1 << 20), ("/v1/tasks/batch", 16 << 20)):
        raw = b'{"name": "' + b"x" * limit + b'"}'
        assert_problem(client.post(path, raw=raw, headers={"Content-Type": "application/json"}), 413)
    client.create(**far)


@pytest.mark.shared
def test_a_declared_length_beyond_reason_is_refused_at_once(server):
    for length in ("99999999999999", "18446744073709551616", "-1", "x"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
            s.sendall(f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\nContent-Length: {length}\r\n\r\n{{}}".encode())
            assert s.recv(4096)[9:12] in (b"400", b"413"), length
    assert alive(server.client())


@pytest.mark.shared
def test_long_paths_and_many_headers_are_refused(client):
    assert client.get("/v1/tasks?name=" + "x" * 9000).status == 414
    assert client.get("/v1/tasks", headers={"X-Long": "y" * 17_000}).status == 431
    assert client.get("/v1/tasks", headers={f"X-{i}": "z" * 100 for i in range(300)}).status == 431
    assert alive(client)


RAW = [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200, b"\0" * 1000,
       b"GET /v1/tasks HTTP/1.1\r\n\r\n", b"GET /v1/tasks HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
       b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
       b"GET /v1/tasks%00 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /v1/%zz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
       b"A" * 100_000]


@pytest.mark.parametrize("raw", RAW, ids=lambda r: repr(r[:30]))
@pytest.mark.shared
def test_bytes_that_are_no_request_do_no_harm(server, raw):
    with socket.create_connection(("127.0.0.1", server.port), timeout=1) as s:
        try:
            s.sendall(raw)
            answer = s.recv(65536)
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            answer = b""  # closed, or still hoping for the rest: until its time is over
    assert answer == b"" or answer[9:10] == b"4" or answer[9:12] == b"505", answer[:100]
    assert alive(server.client())


@pytest.mark.own_server
def test_a_client_that_goes_away_in_the_middle_does_no_harm(server, receiver):
    text = json.dumps({"name": "half", **receiver.target("/half")}).encode()
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    whole = head.encode() + text
    for cut in range(1, len(whole), 40):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
            s.sendall(whole[:cut])
    assert server.client().get("/v1/tasks").json["tasks"] == []
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
        s.sendall(whole)  # all of it, and gone before the answer: done or not, the server goes on
    receiver.wait("/half")
    server.stop()


@pytest.mark.shared
def test_slow_clients_do_not_keep_others_waiting(server):
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(200)]
    for s in slow:
        s.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Le")
    assert alive(server.client())
    for s in slow:
        s.close()


# ----------------------------------------------------------------------------------------------------------------------
# versions and keys


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_if_match_guards_patch_and_delete(client, far):
    task = client.create(**far)
    path = f"/v1/tasks/{task['id']}"
    edited = client.request("PATCH", path, {"name": "two"}, headers={"If-Match": '"1"'})
    assert edited.status == 200 and edited.headers["etag"] == '"2"' and edited.json["name"] == "two"
    assert_problem(client.request("PATCH", path, {"name": "three"}, headers={"If-Match": '"1"'}), 412)
    assert_problem(client.request("DELETE", path, headers={"If-Match": '"1"'}), 412)
    assert "If-Match is empty" in assert_problem(client.request("DELETE", path, headers={"If-Match": ""}), 400)["detail"]
    assert client.get(path).headers["etag"].startswith('"2-')
    assert client.request("DELETE", path, headers={"If-Match": '"2"'}).status == 204


@pytest.mark.cluster(when="always")
@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_of_many_edits_of_one_version_one_wins(server, far):
    task = server.client().create(**far)

    def edit(i):
        client = server.client()
        answer = client.request("PATCH", f"/v1/tasks/{task['id']}", {"name": f"by {i}"}, headers={"If-Match": '"1"'})
        client.close()
        return answer

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(edit, range(24)))
    won = [a for a in answers if a.status == 200]
    assert len(won) == 1 and {a.status for a in answers} == {200, 412}
    assert server.client().task(task["id"])["name"] == won[0].json["name"]


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_edits_without_a_version_all_come_through(server, far):
    task = server.client().create(**far)

    def edit(i):
        client = server.client()
        answer = client.request("PATCH", f"/v1/tasks/{task['id']}", {"name": f"by {i}"})  # an edit that changes nothing makes no version
        client.close()
        return answer.status

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(edit, range(20)))
    assert set(statuses) <= {200, 409}
    assert server.client().task(task["id"])["version"] == 1 + statuses.count(200)


@pytest.mark.cluster(when="always")
@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_the_same_key_gives_the_same_answer_to_every_kind_of_change(client, far):
    task = client.create(**far)
    path = f"/v1/tasks/{task['id']}"
    for method, where, body in (("POST", "/v1/tasks", far), ("POST", "/v1/tasks/batch", [far, {"bad": 1}]), ("PATCH", path, {"name": "n"}),
                                ("POST", f"{path}/pause", None), ("POST", f"{path}/resume", None), ("DELETE", path, None)):
        first = client.request(method, where, body, key="k")
        again = client.request(method, where, body, key="k")
        assert first.status == again.status < 300 and first.body == again.body, (method, where, first, again)
        if body is not None:
            other = [far] if isinstance(body, list) else {**body, "name": "another body"}
            assert_problem(client.request(method, where, other, key="k"), 422)
    assert len(client.get("/v1/tasks").json["tasks"]) == 2


@pytest.mark.parametrize("key", ["x" * 300, "ä", "tab\there"])
@pytest.mark.shared
def test_a_bad_idempotency_key_is_refused(client, far, key):
    assert_problem(client.post("/v1/tasks", far, headers={"Idempotency-Key": key.encode()}), 400)


@pytest.mark.text("no task runs")
def test_keys_can_be_made_mandatory(make_server, far):
    server = make_server(env={"BELFRY_API_REQUIRE_IDEMPOTENCY_KEY": "true"})
    client = server.client()
    assert_problem(client.post("/v1/tasks", far), 400)
    assert client.post("/v1/tasks", far, key="k").status == 201
    assert client.post("/v1/tasks", {**far, "idempotency_key": "k2"}).status == 201
    assert client.get("/v1/tasks").status == 200


# ----------------------------------------------------------------------------------------------------------------------
# many


def test_a_bad_element_of_a_batch_fails_alone(client, receiver, far):
    answer = client.post("/v1/tasks/batch", [far, {"name": 5}, {**far, "delay": "100ms", **receiver.target("/b")}, [], {**far, "queue": "b c"}])
    assert answer.status == 201
    assert (answer.json["created"], answer.json["failed"]) == (2, 3)
    assert [("id" in t, "error" in t) for t in answer.json["tasks"]] == [(True, False), (False, True), (True, False), (False, True), (False, True)]
    assert answer.json["tasks"][1]["error"]["errors"][0]["field"] == "name"
    assert receiver.wait("/b")[0].id == answer.json["tasks"][2]["id"]


END = "9999-12-31T23:59:59.999Z"


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_the_end_of_the_last_year_is_no_end_of_the_server(client):
    """What is computed from a time that a user may give, such as an expiry, may be in the year 10000."""
    step = {"steps": [{"name": "a", "target_type": "NOOP"}]}
    for path in ("upcoming?from=9999-12-31T23:59:00Z", "upcoming?group_by=hour&from=9999-12-31T23:59:00Z", f"stats?to={END}"):
        answer = client.get(f"/v1/{path}")
        assert answer.status == 200 and answer.json["to"] == END, answer
    for path, body in (("tasks", {"expires_after_seconds": 1}), ("tasks", {"spread_seconds": 86400}), ("preview", {"spread_seconds": 86400}),
                       ("workflows", {"definition": step, "expires_after_seconds": 3600, "deadline_seconds": 3600})):
        target = {} if "definition" in body else {"target_type": "NOOP"}
        answer = client.post(f"/v1/{path}", {"run_at": END, **target, **body})
        assert answer.status in (200, 201), answer
    shown = client.get("/v1/tasks").json["tasks"]
    assert len(shown) == 3 and {t["expires_at"] for t in shown if t.get("expires_after_seconds")} == {END}
    assert {t["next_execution"] for t in shown} == {END}
    for task in shown:
        client.act(task["id"], "pause")
        assert client.get(f"/v1/tasks/{task['id']}/explain").status == 200
        assert client.request("PATCH", f"/v1/tasks/{task['id']}", {"expires_after_seconds": 100_000}).json["expires_at"] == END


def test_a_batch_as_lines(client, receiver, far):
    lines = "\n".join([json.dumps({**far, "delay": "100ms", **receiver.target("/l")}), "", " \t\r", "{nonsense", "\0", json.dumps(far)]) + "\r\n"
    answer = client.post("/v1/tasks/batch", raw=lines.encode(), headers={"Content-Type": "application/x-ndjson"})
    assert (answer.status, answer.json["created"], answer.json["failed"]) == (201, 2, 2), answer
    receiver.wait("/l")


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_a_batch_has_ten_thousand_tasks_and_no_more(client):
    one = {"delay": "1d", "target_type": "NOOP"}
    answer = client.post("/v1/tasks/batch", [one] * 10_000)
    assert answer.status == 201 and answer.json["created"] == 10_000
    assert_problem(client.post("/v1/tasks/batch", [one] * 10_001), 400)
    assert_problem(client.post("/v1/tasks/batch", []), 400)
    assert client.get("/v1/tasks?page=1").json["pagination"]["total"] == 10_000


@pytest.mark.shared
def test_a_batch_where_all_fail_creates_nothing(client):
    answer = client.post("/v1/tasks/batch", [{"x": 1}, {"y": 2}])
    assert (answer.status, answer.json["created"], answer.json["failed"]) == (201, 0, 2)


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_both_pagings_show_each_task_once(client):
    ids = [t["id"] for t in client.post("/v1/tasks/batch", [{"name": f"p{i}", "delay": "1d", "target_type": "NOOP"} for i in range(57)]).json["tasks"]]
    by_cursor, cursor = [], ""
    while cursor is not None:
        page = client.get(f"/v1/tasks?limit=10{'&cursor=' + cursor if cursor else ''}").json
        by_cursor += [t["id"] for t in page["tasks"]]
        cursor = page["pagination"]["next_cursor"]
    by_page = []
    for n in range(1, 8):
        page = client.get(f"/v1/tasks?limit=10&page={n}").json
        assert page["pagination"]["total"] == 57 and page["pagination"]["total_exact"] is True
        by_page += [t["id"] for t in page["tasks"]]
    assert by_cursor == by_page == sorted(ids, reverse=True)


@pytest.mark.text("no task runs")
def test_names_from_other_schedulers_are_accepted(client, receiver):
    worker = client.create(type="email.send", payload={"to": "a@example.com"}, scheduled_at=at(now_ms() + 86_400_000))
    assert (worker["type"], worker["task_type"], worker["target_type"], worker["timeout_ms"]) == ("ONE_TIME", "email.send", "WORKER", None)
    hook = client.create(type="email.send", payload={"webhook_url": receiver.url("/hook")}, scheduled_at=at(now_ms() + 86_400_000))
    assert (hook["task_type"], hook["target_type"]) == ("email.send", "HTTP_CALLBACK")
    paused = client.create(type="email.send", delay="1d")["id"]
    client.act(paused, "pause")
    found = client.get("/v1/tasks?status=ACTIVE&task_type=email.send").json["tasks"]
    assert {t["id"] for t in found} == {worker["id"], hook["id"]}
    spread = client.create(run_at="2030-01-01T00:00:00Z", spread_seconds=0.5, metadata={"a": 1}, target_type="NOOP")
    assert spread["run_at"] == "2030-01-01T00:00:00.000Z" and spread["spread_seconds"] == 0.5 and spread["metadata"] == {"a": 1}
    assert 0 <= to_ms(spread["next_execution"]) - to_ms(spread["run_at"]) < 500


@pytest.mark.shared
def test_the_server_serves_the_description_that_answers_are_held_to(client):
    assert client.get("/openapi.json").json == openapi.description()


@pytest.mark.text("no task runs")
def test_filters_and_bad_queries(client, far):
    client.create(**{**far, "name": "alpha one", "queue": "a", "task_type": "x.y"})
    client.create(**{**far, "name": "alpha two", "delay": "2d"})
    client.create(name="beta", interval_seconds=3600, start_time=at(now_ms() + 86400_000), target_type="NOOP")
    count = lambda query: len(client.get(f"/v1/tasks?{query}").json["tasks"])
    assert (count("name=alpha*"), count("name=alpha"), count("name=alpha%20one"), count("queue=a"), count("task_type=x.y")) == (2, 0, 1, 1, 1)
    assert (count("type=ONE_TIME"), count("type=RECURRING"), count("status=SCHEDULED"), count("status=PENDING,PAUSED")) == (2, 1, 3, 3)
    assert count(f"type=ONE_TIME&due_before={at(now_ms() + 1.5 * 86400_000)}") == 1 and count(f"type=ONE_TIME&due_after={at(now_ms() + 1.5 * 86400_000)}") == 1
    assert count(f"created_before={at(now_ms() - 60_000)}") == 0 and count(f"created_after={at(now_ms() - 60_000)}") == 3
    assert count("name=%27%3B%20DROP%20TABLE%20tasks%3B--") == 0 and count("") == 3
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=x", "page=0", "page=1&cursor=" + NOBODY, "status=WELL", "type=DAILY", "due_before=x",
                  "nonsense=1", "limit=1&limit=2", "name=%ff", "name=%zz", "page=99999999"):
        assert_problem(client.get(f"/v1/tasks?{query}"), 400)


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_a_brief_list_shows_what_a_screen_needs(client, far):
    made = client.create(**{**far, "name": "big", "payload": {"text": "x" * 10_000}, "metadata": {"team": "a"}})
    [whole] = client.get("/v1/tasks?name=big").json["tasks"]
    answer = client.get("/v1/tasks?name=big&view=brief")
    [brief] = answer.json["tasks"]
    assert whole == made and len(answer.body) < 2000
    assert not {"payload", "target_config", "metadata", "retry"} & brief.keys()
    assert brief.items() <= whole.items() and {"id", "status", "name", "queue", "next_execution", "target_type", "version", "attempts"} <= brief.keys()
    assert client.get("/v1/tasks?name=big&view=full").json["tasks"] == [whole]
    assert_problem(client.get("/v1/tasks?view=short"), 400)


@pytest.mark.cluster(when="always")
def test_what_ran_is_listed_over_all_tasks(client, receiver):
    for i in range(5):
        client.create(name=f"ran {i}", queue="h", **receiver.target(f"/ran/{i}"))
    receiver.answer("/ran/bad", Reply(404))
    bad = client.create(name="bad", **receiver.target("/ran/bad"))["id"]
    until(lambda: len(client.get("/v1/executions").json["executions"]) == 6)
    every = client.get("/v1/executions").json["executions"]
    assert [x["task_name"] for x in every if x["status"] == "FAILED"] == ["bad"] and all("output" not in x and x["worker"] for x in every)
    assert sorted(x["task_name"] for x in client.get("/v1/executions?queue=h").json["executions"]) == [f"ran {i}" for i in range(5)]
    [failed] = client.get("/v1/executions?status=FAILED").json["executions"]
    assert failed["task_id"] == bad and failed["http_status"] == 404 and failed["queue"] == "default"
    assert client.get("/v1/executions?worker=nobody").json["executions"] == []
    assert len(client.get(f"/v1/executions?worker={every[0]['worker']}").json["executions"]) >= 1
    seen, cursor = [], ""
    while cursor is not None:
        page = client.get(f"/v1/executions?limit=2{cursor}").json
        seen += [x["id"] for x in page["executions"]]
        cursor = page["pagination"].get("next_cursor")
        cursor = f"&cursor={cursor}" if cursor else None
    assert sorted(seen) == sorted(x["id"] for x in every)
    assert client.get(f"/v1/executions?from={at(now_ms() + 60_000)}").json["executions"] == []
    assert len(client.get(f"/v1/executions?from={at(now_ms() - 60_000)}&to={at(now_ms() + 60_000)}").json["executions"]) == 6
    assert client.get(f"/v1/executions?to={at(now_ms() - 60_000)}").json["executions"] == []
    assert_problem(client.get(f"/v1/executions?from={at(now_ms())}&to={at(now_ms() - 1000)}"), 400)


# ----------------------------------------------------------------------------------------------------------------------
# the recurring view, and what is not there


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_the_recurring_view_is_the_same_resource(client, receiver, far):
    one_time = client.create(**far)
    body = {"name": "r", "cron_expression": "0 8 * * MON-FRI", "time_zone": "Europe/Berlin", **receiver.target("/r")}
    made = [client.post(path, body) for path in ("/v1/recurring-tasks", "/v1/tasks/recurring", "/v1/tasks")]
    assert [a.status for a in made] == [201] * 3
    assert len(client.get("/v1/recurring-tasks").json["tasks"]) == 3 and len(client.get("/v1/tasks").json["tasks"]) == 4
    path = f"/v1/recurring-tasks/{made[0].json['id']}"
    assert client.get(path).json["next_execution"]
    assert_problem(client.get(f"/v1/recurring-tasks/{one_time['id']}"), 404)
    assert_problem(client.post("/v1/recurring-tasks", far), 400)
    assert client.post(f"{path}/pause").json["status"] == "PAUSED"
    assert client.post(f"{path}/resume").json["status"] == "SCHEDULED"
    assert client.request("PATCH", path, {"cron_expression": "0 9 * * *"}).json["cron_expression"] == "0 9 * * *"
    assert client.request("DELETE", path).status == 204
    assert_problem(client.get(path), 404)
    assert_problem(client.get(f"/v1/tasks/{one_time['id']}/occurrences"), 404)


@pytest.mark.shared
def test_a_task_that_is_not_there_is_404_everywhere(client):
    for path in (p for p in READS if NOBODY in p):
        assert_problem(client.get(path), 404)
    for method, path in ((m, p) for m, p in WRITES if NOBODY in p):
        assert_problem(client.request(method, path, {"name": "x"} if method == "PATCH" else None), 404)


@pytest.mark.cluster
def test_what_is_over_stays_over(client):
    task = client.create(target_type="NOOP")
    client.wait_for(task["id"], "COMPLETED")
    for action in ("cancel", "pause", "resume", "run-now", "retry"):
        problem = assert_problem(client.post(f"/v1/tasks/{task['id']}/{action}"), 409)
        assert "COMPLETED" in problem["detail"]
    assert client.act(task["id"], "force-complete")["status"] == "COMPLETED"


@pytest.mark.cluster
@pytest.mark.text("no task runs")
@pytest.mark.own_server
def test_everything_is_there_after_a_kill(server, far):
    client = server.client()
    tasks = [client.create(**{**far, "name": f"n{i}"}) for i in range(20)]
    client.act(tasks[0]["id"], "pause")
    client.act(tasks[1]["id"], "cancel")
    client.request("DELETE", f"/v1/tasks/{tasks[2]['id']}")
    client.request("PATCH", f"/v1/tasks/{tasks[3]['id']}", {"name": "edited"})
    before = client.all("/v1/tasks")
    server.kill()
    server.start()
    assert server.client().all("/v1/tasks") == before


@pytest.mark.cluster
@pytest.mark.own_server
def test_hundreds_of_clients_at_once(server, receiver):
    answers = []

    def work(n):
        client = server.client()
        for i in range(10):
            answers.append(client.post("/v1/tasks", {"name": f"{n}.{i}", **receiver.target(f"/h/{n}/{i}")}).status)
            client.get("/v1/tasks?limit=5")
        client.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [201] * 400
    client = server.client()
    until(lambda: client.get("/v1/scheduler/status").json["tasks"]["COMPLETED"] == 400, why="not all completed")
    assert len(receiver.calls) == 400
    server.stop()


def test_values_of_secret_headers_are_write_only(client, receiver):
    target = receiver.target("/secret")
    target["target_config"]["headers"] = {"Authorization": "Bearer s3cret", "X-Team": "a"}
    made = client.create(delay="1h", **target)
    shown = {"Authorization": "***", "X-Team": "a"}
    assert made["target_config"]["headers"] == shown
    path = f"/v1/tasks/{made['id']}"
    (listed,) = client.get("/v1/tasks?limit=1").json["tasks"]
    assert client.get(path).json["target_config"]["headers"] == listed["target_config"]["headers"] == shown
    sent_back = {"target_config": {**made["target_config"], "headers": {**shown, "X-Team": "b"}}, "delay": "0s"}
    assert client.request("PATCH", path, sent_back).json["target_config"]["headers"] == {"Authorization": "***", "X-Team": "b"}
    client.wait_for(made["id"], "COMPLETED")
    (call,) = receiver.to("/secret")
    assert (call.headers["authorization"], call.headers["x-team"]) == ("Bearer s3cret", "b")
    waits = client.create(delay="1h", **target)["id"]
    other = {"target_config": {**made["target_config"], "url": "http://elsewhere.example/"}}
    for answer in (client.request("PATCH", f"/v1/tasks/{waits}", other), client.post("/v1/tasks", {**target, "target_config": made["target_config"]})):
        assert assert_problem(answer, 400)["errors"][0]["field"] == "target_config.headers.Authorization"
