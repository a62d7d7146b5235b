"""Tasks for workers outside (target WORKER): leased over the API, kept, completed, failed, cancelled and lost."""

import concurrent.futures
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

import pytest

from conftest import ROOT, run
from server import TIMEOUT_S, now_ms, to_ms, until

pytestmark = [pytest.mark.tenant, pytest.mark.cluster(when="always")]


def make(client, **more):
    return client.create(**{"target_type": "WORKER", "payload": {"n": 1}, "name": "job", "queue": "work", **more})["id"]


def lease(client, expect=200, **body):
    answer = client.post("/v1/leases", {"queue": "work", "worker": "w-1", **body})
    assert answer.status == expect, answer
    return answer.json.get("leases")


def lease_one(client, **body):
    leases = lease(client, wait_seconds=20, **body)
    assert len(leases) == 1
    return leases[0]


def say(client, held, what, body=None, expect=200):
    answer = client.post(f"/v1/leases/{held['id']}/{what}", {} if body is None else body)
    assert answer.status == expect, answer
    return answer.json


def test_a_worker_leases_a_task_keeps_it_and_completes_it(server, client):
    task = make(client, payload={"file": "a.mov"}, metadata={"team": "video"})
    held = lease_one(client, lease_seconds=30)
    assert task not in held["id"] and held["fence"] == 1
    assert held["task"]["id"] == task and held["task"]["payload"] == {"file": "a.mov"}
    assert held["attempt"] == 1 and 20000 < to_ms(held["expires_at"]) - now_ms() < 31000
    assert client.task(task)["status"] == "RUNNING"
    kept = say(client, held, "heartbeat", {"lease_seconds": 90, "progress": {"percent": 40}})
    assert kept["cancel_requested"] is False and to_ms(kept["expires_at"]) - now_ms() > 80000
    lines = client.get(f"/v1/tasks/{task}/explain").json
    assert lines["gate"] == "leased" and "w-1" in lines["explanation"] and "40" in lines["explanation"], lines
    done = say(client, held, "complete", {"result": {"frames": 7}})
    assert done == {"id": held["id"], "task_id": task, "status": "COMPLETED"}
    assert client.task(task)["status"] == "COMPLETED"
    attempt = client.get(f"/v1/tasks/{task}/executions").json["executions"][0]
    assert attempt["status"] == "COMPLETED" and attempt["worker"] == "w-1" and attempt["output"] == '{"frames": 7}'


@pytest.mark.standalone("it is about one server's metrics")
@pytest.mark.own_server
def test_a_late_lease_is_measured(server, client):
    make(client, run_at="2026-01-01T00:00:00Z")
    say(client, lease_one(client), "complete")
    metrics = client.get("/metrics").body.decode()
    assert re.search(r"^belfry_execution_delay_seconds_count 1$", metrics, re.M), metrics
    assert re.search(r'^belfry_late_executions_total\{cause="[A-Z]+"\} 1$', metrics, re.M), metrics


def test_a_timeout_ends_a_task_although_its_worker_keeps_beating(client):
    task = make(client, timeout_ms=1500, retry={"max_attempts": 1})
    held = lease_one(client, lease_seconds=60)
    started = now_ms()
    assert to_ms(held["expires_at"]) - started < 1600, "the first lease ends at the timeout, too"
    refused = until(lambda: (a := client.post(f"/v1/leases/{held['id']}/heartbeat", {"lease_seconds": 60})).status == 409 and a)
    assert "timeout_ms" in refused.json["detail"] or "FAILED" in refused.json["detail"], refused
    assert client.wait_for(task, "FAILED")["last_error"].startswith("timed out"), client.task(task)
    [attempt] = client.get(f"/v1/tasks/{task}/executions").json["executions"]
    assert attempt["status"] == "FAILED" and attempt["worker"] is None, attempt
    assert 1500 <= to_ms(attempt["completed_at"]) - to_ms(attempt["started_at"]) < 20_000, attempt


@pytest.mark.standalone("on a cluster another node's request is found by its next poll")
@pytest.mark.own_server
def test_a_request_that_waits_gets_a_new_task_at_once(server, client):
    """Not by the poll that comes once a second: that would take half a second on average."""
    took = []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for _ in range(7):
            waiting = pool.submit(lease_one, server.client())
            time.sleep(0.3)  # it waits: the task is created after it asked
            created = time.monotonic()
            make(client)
            held = waiting.result(timeout=TIMEOUT_S)
            took.append(time.monotonic() - created)
            say(client, held, "complete")
    assert sorted(took)[len(took) // 2] < 0.2, took


def test_a_report_may_be_repeated_and_no_other_comes_behind_it(server, client):
    make(client)
    held = lease_one(client)
    first = say(client, held, "complete")
    assert say(client, held, "complete") == first
    assert "is COMPLETED" in say(client, held, "fail", {"error": "no"}, expect=409)["detail"]
    assert "this lease has ended" in say(client, held, "heartbeat", expect=409)["detail"]


def test_what_fails_comes_again_when_its_worker_says_so(server, client):
    task = make(client)
    held = lease_one(client)
    before = now_ms()
    said = say(client, held, "fail", {"error": "disk full", "retry_after_seconds": 1})
    assert said["status"] == "SCHEDULED" and 800 < to_ms(said["next_execution"]) - before < 3000
    assert say(client, held, "fail", {"error": "disk full"})["status"] == "SCHEDULED"
    again = lease_one(client)
    assert again["task"]["id"] == task and again["attempt"] == 2 and again["id"] != held["id"]
    assert "leased or claimed again" in say(client, held, "complete", expect=409)["detail"]
    assert say(client, again, "fail", {"error": "broken input", "final": True})["status"] == "FAILED"
    assert client.task(task)["last_error"] == "broken input"


def test_who_waits_is_answered_when_something_is_due(server, client):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(lease, server.client(), wait_seconds=30)
        time.sleep(0.3)  # it waits: what comes is made after it asked
        begun = time.monotonic()
        task = make(client)
        got = waiting.result()
    assert [x["task"]["id"] for x in got] == [task]
    assert time.monotonic() - begun < 3
    later = make(client, delay="1s")
    begun = time.monotonic()
    assert lease_one(client)["task"]["id"] == later
    assert 0.5 < time.monotonic() - begun < 4


def test_who_waits_in_vain_is_told_so_in_time(server, client):
    begun = time.monotonic()
    assert lease(client, wait_seconds=1) == []
    assert 0.9 < time.monotonic() - begun < 5
    begun = time.monotonic()
    assert lease(client) == []
    assert time.monotonic() - begun < 2


def test_a_task_that_nobody_leases_in_time_expires(server, client):
    task = make(client, expires_after_seconds=1)
    before = client.create(target_type="NOOP", depends_on=[{"task": task, "type": "MUST_FAIL"}])["id"]
    until(lambda: client.task(task)["status"] == "EXPIRED" or None)
    assert "no worker leased it" in client.task(task)["last_error"] and lease(client) == []
    until(lambda: client.task(before)["status"] == "COMPLETED" or None)


def test_many_workers_get_each_task_once(server, client):
    tasks = {make(client, name=f"job-{i}") for i in range(60)}
    seen, lock = [], threading.Lock()

    def work(number):
        mine = server.client()
        while True:
            got = lease(mine, max=7, worker=f"w-{number}", wait_seconds=1)
            if not got:
                return
            for held in got:
                with lock:
                    seen.append(held["task"]["id"])
                say(mine, held, "complete")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(seen) == sorted(tasks)


def test_a_lease_that_ran_out_is_lost_and_given_anew(server, client):
    task = make(client)
    time.sleep(0.2)
    held = lease_one(client, lease_seconds=1)
    running = client.get(f"/v1/tasks/{task}/executions").json["executions"][0]
    assert running["status"] == "RUNNING" and running["started_at"] > running["scheduled_for"]
    assert client.task(task)["started_at"] == running["started_at"]
    again = lease_one(client)
    assert again["task"]["id"] == task and again["id"] != held["id"]
    say(client, held, "complete", expect=409)
    say(client, again, "complete")
    runs = client.get(f"/v1/tasks/{task}/executions").json["executions"]
    assert [r["status"] for r in runs] == ["COMPLETED", "LOST"]
    assert "its lease expired" in runs[1]["error_message"]
    assert (runs[1]["delay_cause"], runs[1]["started_at"]) == ("ROOM", running["started_at"])


def test_a_cancelled_task_ends_when_its_worker_hears_of_it(server, client):
    task = make(client)
    held = lease_one(client)
    answer = client.post(f"/v1/tasks/{task}/cancel", {})
    assert answer.status == 409 and "asked to end it" in answer.json["detail"], answer
    until(lambda: say(client, held, "heartbeat")["cancel_requested"])
    told = client.get(f"/v1/tasks/{task}/explain").json
    assert told["gate"] == "leased" and "; a cancel was requested, and the worker was asked to end it: it becomes CANCELLED" in told["explanation"], told
    assert client.task(task)["lease"]["cancel_requested"] is True
    assert say(client, held, "fail", {"error": "stopped"})["status"] == "CANCELLED"
    assert client.task(task)["status"] == "CANCELLED"


def test_the_answer_to_a_cancel_does_not_wait_for_a_worker(server, client):
    """It hears of it by its next heartbeat."""
    task = make(client)
    lease_one(client)
    took = []
    for _ in range(3):  # the machine may be busy
        begin = time.monotonic()
        assert "asked to end it" in client.post(f"/v1/tasks/{task}/cancel", {}).json["detail"]
        took.append(time.monotonic() - begin)
    assert min(took) < 0.4, took


def test_a_worker_that_is_gone_while_it_waits_gets_no_task(server, client):
    body = json.dumps({"queue": "work", "wait_seconds": 60, "lease_seconds": 3600}).encode()
    head = (f"POST /v1/leases HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    with socket.create_connection(("127.0.0.1", server.turn().port)) as gone:
        gone.sendall(head.encode() + body)
        for _ in range(3):  # one to each node: by then it waits
            assert client.get("/v1/queues").status == 200
    task = make(client)
    held = lease_one(client)
    assert held["task"]["id"] == task and held["attempt"] == 1
    say(client, held, "complete")
    assert [x["status"] for x in client.get(f"/v1/tasks/{task}/executions").json["executions"]] == ["COMPLETED"]


def test_a_cancelled_task_whose_worker_is_silent_ends_with_its_lease(server, client):
    task = make(client)
    lease_one(client, lease_seconds=2)
    assert client.post(f"/v1/tasks/{task}/cancel", {}).status == 409
    client.wait_for(task, "CANCELLED")


def test_a_paused_queue_gives_nothing_until_it_is_resumed(server, client):
    assert client.request("PUT", "/v1/queues/work", {"paused": True}).status in (200, 201)
    task = make(client)
    assert lease(client, wait_seconds=1) == []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(lease, server.client(), wait_seconds=30)
        assert client.request("PATCH", "/v1/queues/work", {"paused": False}).status == 200
        assert [x["task"]["id"] for x in waiting.result()] == [task]


def test_no_more_are_leased_than_a_queue_may_run_at_once(server, client):
    assert client.request("PUT", "/v1/queues/work", {"max_concurrent": 3}).status in (200, 201)
    for i in range(8):
        make(client, name=f"job-{i}")
    held = []
    while len(held) < 3:
        held += lease(client, max=10, wait_seconds=20)
    assert len(held) == 3
    assert lease(client, max=10, wait_seconds=1) == []
    say(client, held[0], "complete")
    more = lease(client, max=10, wait_seconds=20)
    assert len(more) == 1
    say(client, held[1], "fail", {"error": "x", "final": True})
    assert len(lease(client, max=10, wait_seconds=20)) == 1


@pytest.mark.standalone("one process is restarted")
@pytest.mark.own_server
def test_what_was_leased_before_a_restart_counts_and_can_be_completed(server, client):
    assert client.request("PUT", "/v1/queues/work", {"max_concurrent": 1}).status in (200, 201)
    first, second = make(client), make(client)
    held = lease_one(client)
    server.stop()
    server.start()
    again = server.client()
    assert lease(again, wait_seconds=1) == []
    assert say(again, held, "complete")["status"] == "COMPLETED"
    assert {held["task"]["id"], lease_one(again)["task"]["id"]} == {first, second}


@pytest.mark.own_server
def test_a_key_may_lease_and_do_nothing_else_and_sees_its_tenants_tasks_alone(server, client):
    made = client.post("/v1/api-keys", {"name": "worker", "scopes": ["tasks:lease"]})
    assert made.status == 201
    auth = {"Authorization": f"Bearer {made.json['key']}"}
    make(client)
    assert client.request("GET", "/v1/tasks", auth=False, headers=auth).status == 403
    got = client.request("POST", "/v1/leases", {"queue": "work", "wait_seconds": 20}, auth=False, headers=auth)
    assert got.status == 200 and len(got.json["leases"]) == 1
    assert client.post("/v1/tenants", {"name": "other"}).status == 201
    theirs = client.post("/v1/api-keys", {"name": "w", "scopes": ["tasks:lease"], "tenant": "other"}).json["key"]
    other = {"Authorization": f"Bearer {theirs}"}
    held = got.json["leases"][0]
    assert client.post(f"/v1/leases/{held['id']}/complete", {}).status == 404  # another key of the same tenant
    assert client.request("POST", f"/v1/leases/{held['id']}/heartbeat", {}, auth=False, headers=auth).status == 200
    assert client.request("POST", f"/v1/leases/{held['id']}/heartbeat", {}, auth=False, headers=other).status == 404
    assert client.request("POST", f"/v1/leases/{held['id']}/complete", {}, auth=False, headers=other).status == 404
    assert client.request("POST", "/v1/leases", {"queue": "work"}, auth=False, headers=other).json["leases"] == []


def test_hostile_bodies_and_ids_are_refused(server, client):
    for body, field in (({"max": 0}, "max"), ({"max": 1001}, "max"), ({"wait_seconds": 61}, "wait_seconds"), ({"queue": ""}, "queue"),
                        ({"lease_seconds": 0}, "lease_seconds"), ({"worker": "x" * 201}, "worker"), ({"more": 1}, "more")):
        answer = client.post("/v1/leases", body)
        assert answer.status == 400 and answer.json["errors"][0]["field"] == field, answer
    nobody = "01900000-0000-7000-8000-000000000001"
    for name in (nobody, f"{nobody}.0", f"{nobody}.x", f"{nobody}.1", "x", f"{nobody}.-1", f"{nobody}.99999999999999999999"):
        for what, body in (("heartbeat", {}), ("complete", {}), ("fail", {"error": "x"})):
            assert client.post(f"/v1/leases/{name}/{what}", body).status == 404
    make(client)
    held = lease_one(client)
    assert client.post(f"/v1/leases/{held['id']}/fail", {}).status == 400
    changed = held["id"][:-2] + ("AA" if held["id"][-2:] != "AA" else "BB")
    assert client.post(f"/v1/leases/{changed}/complete", {}).status == 404
    assert client.post(f"/v1/leases/{held['task']['id']}.{held['fence']}/complete", {}).status == 404
    assert say(client, held, "complete")["status"] == "COMPLETED"


def test_recurring_worker_tasks_are_leased_run_by_run(server, client):
    task = client.create(target_type="WORKER", queue="work", name="tick", interval_seconds=1, type="RECURRING")["id"]
    first = lease_one(client)
    assert first["task"]["parent_id"] == task
    say(client, first, "complete")
    second = lease_one(client)
    say(client, second, "complete")
    assert first["task"]["scheduled_for"] != second["task"]["scheduled_for"]
    client.request("DELETE", f"/v1/tasks/{task}")


def block_of(kind):
    """The example of docs/WORKERS.md in that language."""
    text = (ROOT / "docs/WORKERS.md").read_text()
    found = re.findall(rf"```{kind}\n(.*?)```", text, re.S)
    assert len(found) == 1
    return found[0]


def environment(server, client):
    key = client.post("/v1/api-keys", {"name": "example", "scopes": ["tasks:lease"]}).json["key"]
    return {**os.environ, "BELFRY_SERVER": server.url, "BELFRY_KEY": key}


def test_the_python_example_of_the_documentation_works(server, client):
    good = make(client, queue="video", payload={"file": "a.mov"})
    bad = make(client, queue="video", payload={}, retry={"max_attempts": 1})
    worker = subprocess.Popen([sys.executable, "-c", block_of("python")], env=environment(server, client))
    try:
        client.wait_for(good, "COMPLETED")
        client.wait_for(bad, "FAILED")
    finally:
        worker.kill()
        worker.wait()
    attempt = client.get(f"/v1/tasks/{good}/executions").json["executions"][0]
    assert attempt["worker"] == "python-1" and json.loads(attempt["output"]) == {"file": "a.mov", "frames": 7}
    assert client.task(bad)["last_error"] == "'file'"


def test_the_shell_example_of_the_documentation_works(server, client):
    task = make(client, queue="video", payload={"file": "a.mov"})
    done = subprocess.run(["sh", "-c", block_of("sh")], env=environment(server, client), check=False, capture_output=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done
    assert client.task(task)["status"] == "COMPLETED"
    assert client.get(f"/v1/tasks/{task}/executions").json["executions"][0]["worker"] == "shell-1"


def test_the_command_line_adds_one_and_shows_who_has_it(server, client):
    env = {"BELFRY_SERVER": server.url, "BELFRY_KEY": server.key}
    done = run("add", "-q", "--target", "WORKER", "--queue", "work", "-d", '{"n": 2}', "--requires", "gpu", "--cpu", "0.5", env=env)
    assert done.code == 0, done
    held = lease_one(client)
    assert held["task"]["id"] == done.out.strip() and held["task"]["payload"] == {"n": 2}
    assert held["task"]["requires"] == ["gpu"] and held["task"]["resources"] == {"cpu": 0.5}
    say(client, held, "heartbeat", {"progress": {"percent": 40}})
    shown = run("show", held["task"]["id"], env=env)
    assert shown.code == 0 and re.search(r"Leased by\s+w-1", shown.out) and '{"percent": 40}' in shown.out, shown
    refused = run("add", "--target", "WORKER", "http://127.0.0.1/", env=env)
    assert refused.code == 2 and "takes no URL" in refused.err, refused


@pytest.mark.skipif(not os.environ.get("BELFRY_TEST_LONG"), reason="a million tasks take minutes")
@pytest.mark.standalone("one process is measured")
@pytest.mark.own_server
def test_a_million_leases_cost_no_memory_to_speak_of(server, client):
    count, page = 1_000_000, 1000
    for i in range(0, count, 1000):
        body = [{"target_type": "WORKER", "queue": "work", "payload": {"n": i + k}} for k in range(1000)]
        assert client.post("/v1/tasks/batch", body).status in (200, 201, 207)
    leased = 0

    def resident_mb():
        with open(f"/proc/{server.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    while leased < count // 10:
        leased += len(lease(client, max=page, wait_seconds=20, lease_seconds=3600))
    before = resident_mb()
    while leased < count:
        leased += len(lease(client, max=page, wait_seconds=20, lease_seconds=3600))
    after = resident_mb()
    print(f"{before:.0f} MB with {count // 10} leases, {after:.0f} MB with {count}")
    assert after - before < 60
