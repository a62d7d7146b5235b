"""A pause of a task has a reason and may have an end: both are shown wherever the task is, and at its end the task goes on by itself."""

import pytest

from server import at, until
from test_api import assert_problem

REASON = "the mail server <b>moves</b>"


def pause(client, task, **body):
    answer = client.post(f"/v1/tasks/{task}/pause", body)
    assert answer.status == 200, answer
    return answer.json


def acts(client, task):
    """What was done with it, the last act first."""
    return [(row["action"], row["key"]) for row in client.get(f"/v1/audit?object={task}").json["audit"]]


@pytest.mark.cluster(when="always")
def test_a_pause_ends_by_itself_as_a_resume_by_hand_would(make_server, receiver, clock):
    client = make_server(env=clock.env).client()
    start = at(clock.now_ms() + 4000)
    tasks = {"once": client.create(run_at=start, **receiver.target("/once"))["id"]}
    for mode in ("RUN_ONE_NOW", "SKIP_MISSED"):
        tasks[mode] = client.create(interval_seconds=1, start_time=start, catch_up_mode=mode, **receiver.target(f"/{mode}"))["id"]
    end = at(clock.now_ms() + 7500)
    for task in tasks.values():
        assert pause(client, task, reason=REASON, until=end)["paused"]["until"] == end
    later = client.create(run_at=start, **receiver.target("/later"))["id"]
    pause(client, later, **{"for": "1h"})
    clock.jump(8500)
    receiver.wait("/once", 1)
    receiver.wait("/RUN_ONE_NOW", 1)
    until(lambda: client.task(tasks["SKIP_MISSED"])["skipped_count"], why=lambda: client.task(tasks["SKIP_MISSED"]))
    for task in tasks.values():
        after = client.task(task)
        assert after["version"] == 3 and "paused" not in after and after["status"] != "PAUSED", after
        assert [name for name, _ in acts(client, task)] == ["resume task", "POST /v1/tasks/{id}/pause", "POST /v1/tasks"]
        assert acts(client, task)[0][1] == "system"
    (attempt,) = client.get(f"/v1/tasks/{tasks['once']}/executions").json["executions"]
    assert attempt["delay_cause"] == "PAUSED", attempt
    assert client.task(later)["status"] == "PAUSED" and not receiver.to("/later")


@pytest.mark.cluster
def test_a_time_that_is_too_recent_at_the_end_of_a_pause_runs_however_late_that_is_seen(make_server, receiver, clock):
    """It is missed 2.5 s after its time: here before a node looks, but after the end of the pause."""
    client = make_server(env=clock.env).client()
    start = int(clock.now_ms()) + 4000
    task = client.create(interval_seconds=3600, start_time=at(start), catch_up_mode="SKIP_MISSED", **receiver.target("/late"))["id"]
    pause(client, task, until=at(start + 2450))
    assert "runs then: it is too recent to count as missed" in client.get(f"/v1/tasks/{task}/explain").json["explanation"]
    clock.jump(int(start + 2700 - clock.now_ms()))
    receiver.wait("/late", 1)
    assert client.task(task)["skipped_count"] == 0


@pytest.mark.standalone("the only process is killed")
def test_a_kill_at_the_end_of_a_pause_neither_loses_nor_repeats_it(make_server, receiver, clock):
    server = make_server(env=clock.env)
    client = server.client()
    task = client.create(delay="30s", **receiver.target("/once"))["id"]
    pause(client, task, **{"for": "1m"})
    server.kill()
    server.start(env={**clock.env, "BELFRY_FAILPOINT": "before_resume:kill"})
    clock.jump(90_000)
    server.ended()
    server.launch(env={**clock.env, "BELFRY_FAILPOINT": "after_resume:kill"})
    server.ended()
    server.start(env=clock.env)
    client = server.client()
    receiver.wait("/once", 1)
    assert client.task(task)["version"] == 3
    assert [name for name, _ in acts(client, task)].count("resume task") == 1


@pytest.mark.standalone("it copies the embedded store")
def test_a_restored_backup_knows_the_end_of_a_pause(belfry, make_server, receiver, clock, tmp_path):
    server = make_server(env=clock.env)
    task = server.client().create(delay="30s", **receiver.target("/once"))["id"]
    pause(server.client(), task, reason=REASON, **{"for": "1h"})
    assert belfry("backup", tmp_path / "a.db", "--data-dir", server.data_dir).code == 0
    server.stop()
    assert belfry("restore", tmp_path / "a.db", "--data-dir", server.data_dir, "--force").code == 0
    clock.jump(3_700_000)
    server.start(env=clock.env)
    receiver.wait("/once", 1)


@pytest.mark.text("no task runs")
def test_a_pause_says_who_why_and_until_when(client):
    task = client.create(delay="1h", target_type="NOOP")["id"]
    end = at(32_503_680_000_000)
    shown = pause(client, task, reason=REASON, until=end)["paused"]
    assert (shown["reason"], shown["until"]) == (REASON, end) and shown["by"] and shown["since"]
    assert client.task(task)["paused"] == shown
    listed = {t["id"]: t for t in client.all("/v1/tasks?status=PAUSED&view=brief")}
    assert listed[task]["paused"] == shown
    told = client.get(f"/v1/tasks/{task}/explain").json
    assert told["gate"] == "paused" and told["gates"][0]["until"] == end, told
    assert f"by {shown['by']}: {REASON}, until {end}" in told["explanation"], told
    assert client.request("PATCH", f"/v1/tasks/{task}", {"priority": 7}).json["paused"] == shown
    assert "paused" not in client.act(task, "resume")


@pytest.mark.text("no task runs")
def test_a_pause_is_changed_in_what_is_given(client):
    task = client.create(delay="1h", target_type="NOOP")["id"]
    first = pause(client, task, **{"for": "2h"})
    again = pause(client, task)
    assert again["paused"] == first["paused"] and again["version"] == first["version"] == 2, "nothing was given"
    named = pause(client, task, reason=REASON)
    assert (named["paused"]["reason"], named["version"]) == (REASON, 3)
    assert all(named["paused"][k] == first["paused"][k] for k in ("since", "until"))
    endless = pause(client, task, until=None)
    assert (endless["paused"]["reason"], endless["paused"]["until"]) == (REASON, None)
    assert client.get(f"/v1/tasks/{task}/explain").json["outcome"] == "UNKNOWN"
    assert client.act(task, "run-now")["status"] != "PAUSED"


@pytest.mark.parametrize("body, field", [
    ({"reason": "a\nb"}, "reason"), ({"reason": "x" * 501}, "reason"), ({"reason": 1}, "reason"), ({"until": "tomorrow"}, "until"),
    ({"until": "2020-01-01T00:00:00Z"}, "until"), ({"for": "0s"}, "for"), ({"for": "1h", "until": "2099-01-01T00:00:00Z"}, "for"), ({"why": "x"}, "why")])
@pytest.mark.shared
def test_what_is_wrong_in_a_pause_is_named(client, body, field):
    task = client.create(delay="1h", target_type="NOOP")["id"]
    problem = assert_problem(client.post(f"/v1/tasks/{task}/pause", body), 400)
    assert [e["field"] for e in problem["errors"]] == [field], problem
    assert client.task(task)["status"] == "SCHEDULED" and client.request("DELETE", f"/v1/tasks/{task}").status == 204


@pytest.mark.cluster(when="always")
def test_a_bulk_pause_gives_each_task_its_reason_and_its_end(make_server, receiver, clock):
    client = make_server(env=clock.env).client()
    start, end = at(clock.now_ms() + 5000), at(clock.now_ms() + 6000)
    tasks = [client.create(run_at=start, queue="moving", **receiver.target(f"/{i}"))["id"] for i in range(3)]
    made = client.post("/v1/tasks/bulk", {"action": "pause", "filter": {"queue": "moving"}, "reason": REASON, "until": end})
    assert made.status == 202 and made.json["pause"] == {"reason": REASON, "until": end}, made
    job = until(lambda: (client.get(f"/v1/jobs/{made.json['id']}").json if client.get(f"/v1/jobs/{made.json['id']}").json["finished_at"] else None))
    assert (job["state"], job["done"], job["failed"]) == ("DONE", 3, 0), job
    shown = [client.task(task)["paused"] for task in tasks]
    assert {(p["reason"], p["until"]) for p in shown} == {(REASON, end)}
    assert {p["by"] for p in shown} == {pause(client, client.create(delay="1h", target_type="NOOP")["id"])["paused"]["by"]}, "the key's name, not the job"
    clock.jump(7000)
    for i in range(3):
        receiver.wait(f"/{i}", 1)


@pytest.mark.parametrize("body, field", [
    ({"action": "cancel", "reason": "x"}, "reason"), ({"action": "resume", "for": "1h"}, "for"), ({"action": "pause", "until": "2020-01-01T00:00:00Z"}, "until")])
def test_what_is_wrong_in_a_bulk_pause_is_named(client, body, field):
    problem = assert_problem(client.post("/v1/tasks/bulk", {"filter": {"queue": "none"}, **body}), 400)
    assert [e["field"] for e in problem["errors"]] == [field], problem


# The step `sub` is a run of its own, which is paused and resumed with the outer one.
def nested(client, receiver):
    steps = lambda path: [{"name": "wait", "await": {"signal": "go"}}, {"name": "call", "depends_on": ["wait"], "target_config": {"url": receiver.url(path)}}]
    inner = {"steps": steps("/inner")}
    assert client.request("PUT", "/v1/workflow-definitions/inner", inner).status in (200, 201)
    outer = {"steps": [{"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}, *steps("/outer")]}
    made = client.post("/v1/workflows", {"definition": outer, "name": "nested"})
    assert made.status == 201, made
    run = made.json["id"]
    sub = until(lambda: [s["id"] for s in client.get(f"/v1/workflows/{run}/steps").json.get("steps", []) if s["step"] == "sub" and s["status"] == "RUNNING"])[0]
    for one in (run, sub):
        until(lambda one=one: client.get(f"/v1/workflows/{one}/status").json.get("awaiting"), why="the runs do not wait")
    return run, sub


def go(client, *runs):
    """A signal that comes in a pause has its effect after it."""
    for run in runs:
        assert client.post(f"/v1/workflows/{run}/signals/go").status < 300


def pause_run(client, run, **body):
    answer = client.post(f"/v1/workflows/{run}/pause", body)
    assert answer.status == 200, answer
    return answer.json


@pytest.mark.cluster(when="always")
def test_the_pause_of_a_run_ends_by_itself_with_the_runs_below_it(make_server, receiver, clock):
    client = make_server(env=clock.env).client()
    run, sub = nested(client, receiver)
    end = at(clock.now_ms() + 8000)
    shown = pause_run(client, run, reason=REASON, until=end)
    assert shown["paused"] is True and (shown["pause"]["reason"], shown["pause"]["until"]) == (REASON, end) and shown["pause"]["by"], shown
    assert client.get(f"/v1/workflows/{run}").json["pause"] == shown["pause"]
    told = client.get(f"/v1/tasks/{run}/explain").json
    assert told["gate"] == "paused" and f": {REASON}, until {end}; steps that run finish" in told["explanation"], told
    for step in [s for one in (run, sub) for s in client.get(f"/v1/workflows/{one}/steps").json["steps"] if s["status"] == "PAUSED"]:
        told = client.get(f"/v1/tasks/{step['id']}/explain").json
        assert [(g["gate"], g["until"]) for g in told["gates"]] == [("paused", end), ("signal" if step["step"] == "wait" else "dependency", None)], told
        assert f"its run is paused, until {end}" in told["explanation"] and told["outcome"] == "UNKNOWN", told
    go(client, run, sub)
    assert pause_run(client, run)["pause"] == shown["pause"], "nothing was given"
    assert not receiver.to("/inner") and not receiver.to("/outer")
    clock.jump(8500)
    receiver.wait("/inner", 1)
    receiver.wait("/outer", 1)
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "COMPLETED", why=lambda: client.get(f"/v1/workflows/{run}").json)
    assert "pause" not in client.get(f"/v1/workflows/{run}").json
    assert [(act, key) for act, key in acts(client, run) if key == "system"] == [("resume run", "system")]


@pytest.mark.standalone("the only process is killed")
def test_a_kill_while_a_run_is_resumed_leaves_nothing_of_it_paused(make_server, receiver, clock):
    server = make_server(env=clock.env)
    client = server.client()
    run, sub = nested(client, receiver)
    pause_run(client, run, **{"for": "1m"})
    go(client, run, sub)
    server.kill()
    server.start(env={**clock.env, "BELFRY_FAILPOINT": "after_resume:kill"})  # the run below is not resumed yet
    clock.jump(90_000)
    server.ended()
    server.start(env=clock.env)
    client = server.client()
    receiver.wait("/inner", 1)
    receiver.wait("/outer", 1)
    assert [act for act, _ in acts(client, run)].count("resume run") == 1


def test_the_pause_of_a_run_is_changed_in_what_is_given_and_gone_with_the_resume(client):
    run = client.post("/v1/workflows", {"definition": {"steps": [{"name": "ok", "await": {"signal": "ok", "approvals": 1}}]}}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "RUNNING", why="it did not start")
    first = pause_run(client, run)["pause"]
    assert first["by"] and first["reason"] is None and first["until"] is None
    named = pause_run(client, run, reason=REASON, **{"for": "1h"})["pause"]
    assert (named["reason"], named["since"]) == (REASON, first["since"]) and named["until"]
    assert client.post(f"/v1/tasks/{run}/pause", {"until": None}).status == 200
    assert client.get(f"/v1/workflows/{run}").json["pause"] == {**named, "until": None}
    listed = {r["id"]: r for r in client.get("/v1/workflows").json["workflows"]}
    assert listed[run]["pause"]["reason"] == REASON
    assert "pause" not in client.post(f"/v1/workflows/{run}/resume").json
    assert pause_run(client, run)["pause"]["reason"] is None, "another pause"
    assert_problem(client.post(f"/v1/workflows/{run}/pause", {"until": "2020-01-01T00:00:00Z"}), 400)
