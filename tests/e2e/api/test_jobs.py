"""Long work done by the server: bulk actions, and the careful re-drive of dead letters."""

import json
import re
import threading

import pytest

from server import Reply, until

pytestmark = [pytest.mark.tenant, pytest.mark.cluster]


def job_over(client, job):
    """Waits for a job's end and returns it."""
    def look():
        answer = client.get(f"/v1/jobs/{job['id']}")
        assert answer.status == 200, answer
        return answer.json["state"] != "RUNNING" and answer.json

    return until(look, why="the job did not end")


def ask(client, path, **body):
    answer = client.post(path, body)
    assert answer.status == 202, answer
    assert answer.headers["location"] == f"/v1/jobs/{answer.json['id']}"
    return answer.json


def batch(client, bodies):
    answer = client.post("/v1/tasks/batch", bodies)
    assert answer.status == 201 and answer.json["failed"] == 0, answer
    return [t["id"] for t in answer.json["tasks"]]


def dead_letters(client, receiver, path, count, **more):
    """Tasks that have failed for good."""
    receiver.answer(path, Reply(404, body=b"broken"))
    ids = batch(client, [{"name": f"dead {i}", "retry": {"max_attempts": 1}, **receiver.target(path), **more} for i in range(count)])
    until(lambda: all(client.task(i)["status"] == "FAILED" for i in ids), why="they did not fail")
    return ids


def claimed_ahead(client):
    """How many tasks the nodes have claimed before they are due."""
    pages = [client.get("/metrics", node=node).body.decode() for node in client.server.nodes]
    return sum(int(re.search(r"^belfry_tasks_ahead (\d+)$", page, re.M)[1]) for page in pages)


# ----------------------------------------------------------------------------------------------------------------------
# bulk


def test_a_bulk_action_reaches_all_that_match_and_nothing_else(client):
    mail = batch(client, [{"name": f"m{i}", "queue": "mail", "delay": "1h", "target_type": "NOOP"} for i in range(700)])
    other = batch(client, [{"name": f"o{i}", "queue": "other", "delay": "1h", "target_type": "NOOP"} for i in range(5)])
    job = ask(client, "/v1/tasks/bulk", action="pause", filter={"queue": "mail"})
    assert (job["total"], job["total_exact"], job["state"]) == (700, True, "RUNNING")
    done = job_over(client, job)
    assert (done["state"], done["done"], done["failed"], done["failures"]) == ("DONE", 700, 0, [])
    assert {t["id"] for t in client.all("/v1/tasks?status=PAUSED")} == set(mail)
    assert all(client.task(i)["status"] == "SCHEDULED" for i in other)
    back = job_over(client, ask(client, "/v1/tasks/bulk", action="resume", filter={"queue": "mail", "status": "PAUSED"}))
    assert back["done"] == 700 and not client.all("/v1/tasks?status=PAUSED")
    gone = job_over(client, ask(client, "/v1/tasks/bulk", action="delete", filter={"queue": "mail"}))
    assert gone["done"] == 700 and not client.all("/v1/tasks?queue=mail")


def test_what_a_bulk_action_could_not_do_is_listed_with_the_reason(client):
    [gone] = batch(client, [{"name": "x", "queue": "q", "delay": "1h", "target_type": "NOOP"}])
    client.act(gone, "cancel")
    [waits] = batch(client, [{"name": "y", "queue": "q", "delay": "1h", "target_type": "NOOP"}])
    done = job_over(client, ask(client, "/v1/tasks/bulk", action="pause", filter={"queue": "q"}))
    assert (done["done"], done["failed"]) == (1, 1) and done["failures"][0]["task_id"] == gone
    assert "CANCELLED" in done["failures"][0]["error"]
    assert client.task(waits)["status"] == "PAUSED"


def test_a_bulk_cancel_aborts_what_runs(client, receiver):
    hold = threading.Event()
    receiver.answer("/slow", Reply(hold=hold))
    [running] = batch(client, [{"name": "slow", "queue": "slow", **receiver.target("/slow")}])
    receiver.wait("/slow")
    done = job_over(client, ask(client, "/v1/tasks/bulk", action="cancel", filter={"queue": "slow"}))
    hold.set()
    assert done["done"] == 1 and client.wait_for(running, "CANCELLED")


@pytest.mark.own_server
def test_a_bulk_action_goes_on_after_the_server_was_killed(server, client):
    batch(client, [{"name": f"k{i}", "queue": "k", "delay": "1h", "target_type": "NOOP"} for i in range(6000)])
    job = ask(client, "/v1/tasks/bulk", action="run-now", filter={"queue": "k"})
    until(lambda: client.get(f"/v1/jobs/{job['id']}").json["done"] > 0, why="it did not begin")
    server.kill()
    server.start()
    done = job_over(client, job)
    assert (done["state"], done["done"], done["failed"]) == ("DONE", 6000, 0), done
    until(lambda: not client.all("/v1/tasks?queue=k&status=SCHEDULED"), why="some were not run")


@pytest.mark.parametrize("action, state", [("cancel", "CANCELLED"), ("pause", "PAUSED")])
@pytest.mark.own_server
def test_a_task_that_was_claimed_early_is_scheduled_for_every_filter(server, client, belfry, action, state):
    """It is shown as SCHEDULED until it is due. So lists find it by this status, and bulk actions reach it."""
    ids = batch(client, [{"name": "soon", "delay": "2900ms", "target_type": "NOOP"} for _ in range(3)])
    until(lambda: claimed_ahead(client) == 3, why="they were not claimed")
    scheduled = client.get("/v1/tasks?name=soon&status=SCHEDULED&page=1").json
    running = client.get("/v1/tasks?name=soon&status=RUNNING&page=1").json
    out = belfry(action, "--filter", "status=SCHEDULED,name=soon", env={"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)})
    assert {t["id"]: t["status"] for t in scheduled["tasks"]} == dict.fromkeys(ids, "SCHEDULED")
    assert (scheduled["pagination"]["total"], running["tasks"], running["pagination"]["total"]) == (3, [], 0)
    assert (out.code, out.out) == (0, f"3 {state.lower()}\n"), out
    assert [client.task(i)["status"] for i in ids] == [state] * 3


def test_a_job_can_be_cancelled_and_says_so(client):
    batch(client, [{"name": f"c{i}", "queue": "c", "delay": "1h", "target_type": "NOOP"} for i in range(5000)])
    job = ask(client, "/v1/tasks/bulk", action="pause", filter={"queue": "c"})
    assert client.post(f"/v1/jobs/{job['id']}/cancel", {"why": "x"}).status == 400, "it takes no body"
    answer = client.post(f"/v1/jobs/{job['id']}/cancel")
    assert answer.status in (202, 409), answer  # 409: it was faster
    done = job_over(client, job)
    if answer.status == 202 and done["state"] == "CANCELLED":
        assert done["done"] < 5000 and done["reason"]
    assert client.post(f"/v1/jobs/{job['id']}/cancel").status == 409


@pytest.mark.cluster(when="long")
@pytest.mark.parametrize("body, field", [
    ({"action": "pause"}, "filter"),
    ({"action": "pause", "filter": {}}, "filter"),
    ({"action": "explode", "filter": {"all": True}}, "action"),
    ({"action": "force-complete", "filter": {"all": True}}, "action"),
    ({"action": "pause", "filter": {"colour": "red"}}, "filter.colour"),
    ({"action": "pause", "filter": {"status": "SLEEPY"}}, "filter.status"),
    ({"action": "pause", "filter": {"due_before": "soon"}}, "filter.due_before"),
    ({"action": "pause", "filter": [1]}, "filter"),
    ({"action": "pause", "filter": {"queue": ""}}, "filter.queue"),
])
@pytest.mark.shared
def test_a_wrong_bulk_request_names_the_field(client, body, field):
    answer = client.post("/v1/tasks/bulk", body)
    assert answer.status == 400 and answer.json["errors"][0]["field"] == field, answer


@pytest.mark.text("no task runs")
def test_the_same_key_asks_for_one_job(client):
    first = client.post("/v1/tasks/bulk", {"action": "pause", "filter": {"queue": "none"}}, key="once")
    again = client.post("/v1/tasks/bulk", {"action": "pause", "filter": {"queue": "none"}}, key="once")
    assert first.status == again.status == 202 and first.json["id"] == again.json["id"]


# ----------------------------------------------------------------------------------------------------------------------
# dead letters


def test_dead_letters_are_grouped_by_what_they_have_in_common(client, receiver, belfry, server):
    dead_letters(client, receiver, "/a/1", 3)
    receiver.answer("/b", Reply(404, body=b"no"))
    [other] = batch(client, [{"name": "b", "retry": {"max_attempts": 1}, **receiver.target("/b")}])
    client.wait_for(other, "FAILED")
    groups = client.get("/v1/dlq?group_by=cause").json["groups"]
    assert [g["count"] for g in groups] == [3, 1] and groups[1]["latest_task_id"] == other
    assert groups[0]["cause"] != groups[1]["cause"] and len(groups[0]["cause"]) == 16
    host = receiver.url().split("/")[2]
    assert groups[1]["host"] == host and groups[1]["latest_task_name"] == "b"
    lines = belfry("dlq", "groups", env={"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}).lines
    assert lines[0].split() == ["CAUSE", "COUNT", "HOST", "LATEST", "EXAMPLE", "NAME", "ERROR"]
    assert f"  {host}  " in lines[2] and f"  {other}  b  " in lines[2]
    found = client.get(f"/v1/dlq?cause={groups[0]['cause']}").json["tasks"]
    assert len(found) == 3 and all(t["status"] == "FAILED" for t in found)


def test_a_dead_letter_shows_every_attempt_with_its_output(client, receiver):
    receiver.answer("/x", Reply(500, body=b"first"), Reply(500, body=b"second"))
    [task] = batch(client, [{"name": "x", "retry": {"max_attempts": 2, "base_delay_ms": 1, "jitter": "NONE"}, **receiver.target("/x")}])
    client.wait_for(task, "FAILED")
    shown = client.get(f"/v1/dlq/{task}").json
    assert [(x["attempt_number"], x["output"]) for x in shown["executions"]] == [(2, "second"), (1, "first")]
    [fine] = batch(client, [{"name": "y", "target_type": "NOOP"}])
    client.wait_for(fine, "COMPLETED")
    assert client.get(f"/v1/dlq/{fine}").status == 404


def test_a_dead_letter_is_retried_with_its_target_mended(client, receiver):
    [task] = dead_letters(client, receiver, "/wrong", 1)
    assert client.request("PATCH", f"/v1/tasks/{task}", {"target_config": {"method": "PUT", "body": {"n": 1}}}).status == 200
    before = client.task(task)["version"]
    answer = client.post(f"/v1/dlq/{task}/retry", {"target_config": {"url": receiver.url("/right")}})
    assert answer.status == 200 and answer.json["version"] == before + 1, answer
    receiver.wait("/right")
    assert client.wait_for(task, "COMPLETED")["target_config"] == {"url": receiver.url("/right"), "method": "PUT", "body": {"n": 1}}
    assert client.post(f"/v1/dlq/{task}/retry").status == 409


def test_an_archived_dead_letter_leaves_the_list_and_says_by_whom(client, receiver):
    [task] = dead_letters(client, receiver, "/arch", 1)
    answer = client.post(f"/v1/dlq/{task}/archive", {"reason": "nobody waits for it"})
    assert answer.status == 200, answer
    assert not client.get("/v1/dlq").json["tasks"]
    [kept] = client.get("/v1/dlq?resolved=true").json["tasks"]
    assert kept["id"] == task and kept["status"] == "FAILED"
    assert client.post(f"/v1/dlq/{task}/archive").status == 200  # it is so already
    assert client.post(f"/v1/dlq/{task}/archive", {"reason": "x" * 501}).json["errors"][0]["field"] == "reason"


def test_a_re_drive_tries_one_then_ten_then_the_rest(client, receiver):
    ids = dead_letters(client, receiver, "/drive", 40)
    receiver.answer("/drive", Reply(200))
    done = job_over(client, ask(client, "/v1/dlq/retry", filter={"all": True}, rate=200))
    assert (done["state"], done["done"]) == ("DONE", 40), done
    until(lambda: all(client.task(i)["status"] == "COMPLETED" for i in ids), why="they were not run")
    calls = [c for c in receiver.to("/drive") if c.status == 200]
    assert len(calls) == 40
    assert calls[1].received_ms > calls[0].received_ms  # the second waited for the first to succeed


def test_a_re_drive_stops_at_the_first_that_fails_again(client, receiver):
    dead_letters(client, receiver, "/stays", 20)
    done = job_over(client, ask(client, "/v1/dlq/retry", filter={"name": "dead*"}))
    assert (done["state"], done["done"], done["failed_again"]) == ("STOPPED", 1, 1) and "failed again" in done["reason"]
    assert len(receiver.to("/stays")) == 21
    assert len(client.all("/v1/dlq")) == 20


def test_a_re_drive_stops_when_too_many_of_ten_fail(client, receiver):
    dead_letters(client, receiver, "/some", 30)
    receiver.answer("/some", *[Reply(200)] * 4, Reply(404))
    done = job_over(client, ask(client, "/v1/dlq/retry", filter={"all": True}))
    assert (done["state"], done["done"], done["succeeded"], done["failed_again"]) == ("STOPPED", 11, 4, 7), done
    assert len(client.all("/v1/dlq")) == 26


def test_the_command_line_follows_a_job_to_its_end(server, client, belfry):
    environment = {"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}

    def run(*words):
        return belfry(*words, env=environment)

    batch(client, [{"name": f"m{i}", "queue": "mail", "delay": "1h", "target_type": "NOOP"} for i in range(50)])
    out = run("pause", "--filter", "queue=mail")
    assert out.code == 0 and out.out == "50 paused\n", out
    listed = run("job", "--json")
    assert json.loads(listed.lines[0])["done"] == 50
    assert run("dlq").code == 0
    assert run("dlq", "retry").code == 2  # all must be meant
    assert run("job", "show", "x").code == 1


@pytest.mark.parametrize("nothing", [{}, {"all": False}, {"name": None}, {"type": None, "status": None}])
@pytest.mark.shared
def test_a_filter_that_names_nothing_does_not_mean_everything(client, nothing):
    task = client.create(delay="1d", target_type="NOOP")["id"]
    answer = client.post("/v1/tasks/bulk", {"action": "cancel", "filter": nothing})
    assert answer.status == 400 and answer.json["errors"][0]["field"].startswith("filter"), answer
    assert client.task(task)["status"] == "SCHEDULED" and client.request("DELETE", f"/v1/tasks/{task}").status == 204
