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


def test_a_run_that_has_started_is_paused_without_reason_and_end(client):
    run = client.post("/v1/workflows", {"definition": {"steps": [{"name": "ok", "await": {"signal": "ok", "approvals": 1}}]}}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "RUNNING", why="it did not start")
    assert_problem(client.post(f"/v1/tasks/{run}/pause", {"reason": "x"}), 409)
    assert client.post(f"/v1/tasks/{run}/pause").status == 200
