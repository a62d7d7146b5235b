"""Tasks that depend on others, on the real server with the receiver as oracle: order, skips, changes, kills."""

import pytest

from server import Reply, to_ms, until

pytestmark = [pytest.mark.tenant, pytest.mark.cluster]


def graph(client, task_id):
    answer = client.get(f"/v1/tasks/{task_id}/dependencies")
    assert answer.status == 200, answer
    return answer.json


def test_a_task_starts_after_those_that_it_depends_on(client, receiver):
    parents = [client.create(delay="1h", name=name, **receiver.target(f"/parent{i}"))["id"] for i, name in enumerate(("first", "second", "third"))]
    child = client.create(depends_on=parents, **receiver.target("/child"))
    assert child["status"] == "BLOCKED" and child["next_execution"] is None
    assert client.task(child["id"])["waiting_for"] == {"kind": "dependencies"}
    for i, parent in enumerate(parents):
        assert i or f"{parents[0]} 'first' (SCHEDULED for " in client.get(f"/v1/tasks/{child['id']}/explain").json["explanation"]
        assert f"it waits for {3 - i} of 3 tasks" in client.get(f"/v1/tasks/{child['id']}/explain").json["explanation"]
        assert not receiver.to("/child")
        client.act(parent, "run-now")
        client.wait_for(parent, "COMPLETED")
    receiver.wait("/child")
    client.wait_for(child["id"], "COMPLETED")
    around = graph(client, child["id"])
    assert (around["expected"], around["arrived"], around["met"], around["waits"]) == (3, 3, 3, False)
    assert [x["status"] for x in around["depends_on"]] == ["COMPLETED"] * 3
    assert [x["task_id"] for x in graph(client, parents[0])["dependents"]] == [child["id"]]
    assert len(receiver.to("/child")) == 1


@pytest.mark.text("no task runs")
def test_explain_names_the_gates_behind_the_dependencies(client):
    base = client.create(delay="1h", target_type="NOOP")["id"]
    assert client.request("PATCH", "/v1/queues/shut", {"paused": True}).status in (200, 201)
    for body, gates in (({"run_at": "2099-01-01T00:00:00Z"}, ["dependency", "due_time"]), ({"queue": "shut"}, ["dependency", "queue_paused"]),
                        ({"queue": "shut", "delay": "2h"}, ["dependency", "due_time", "queue_paused"]), ({"expires_after_seconds": 1}, ["dependency"])):
        child = client.create(depends_on=[base], target_type="NOOP", **body)
        told = client.get(f"/v1/tasks/{child['id']}/explain").json
        assert [g["gate"] for g in told["gates"]] == gates and told["gates"][0]["until"] is None, told
        assert (told["status"], told["gate"], told["outcome"], told["estimate"]) == ("BLOCKED", "dependency", "UNKNOWN", None), told
        assert gates[1:2] != ["due_time"] or 0 <= to_ms(told["gates"][1]["until"]) - to_ms(child["run_at"]) < 100, told
        assert client.post(f"/v1/tasks/{child['id']}/pause", {"for": "30m"}).status == 200
        told = client.get(f"/v1/tasks/{child['id']}/explain").json
        assert [g["gate"] for g in told["gates"]] == ["paused", *gates], told
        assert (told["status"], told["outcome"]) == ("PAUSED", "UNKNOWN") and told["gates"][0]["until"], told


def test_a_failure_skips_what_depends_on_it_and_starts_the_alarm(client, receiver):
    receiver.answer("/fails", Reply(status=400))
    parent = client.create(delay="1h", **receiver.target("/fails"))["id"]
    child = client.create(depends_on=[parent], **receiver.target("/never"))["id"]
    grandchild = client.create(depends_on=[child], **receiver.target("/never"))["id"]
    alarm = client.create(depends_on=[{"task": parent, "type": "MUST_FAIL"}], **receiver.target("/alarm"))["id"]
    client.act(parent, "run-now")
    receiver.wait("/alarm")
    skipped = client.wait_for(child, "SKIPPED")
    assert parent in skipped["last_error"] and "FAILED" in skipped["last_error"]
    assert child in client.wait_for(grandchild, "SKIPPED")["last_error"]
    client.wait_for(alarm, "COMPLETED")
    assert not receiver.to("/never")
    late = client.create(depends_on=[parent], **receiver.target("/never"))
    assert late["status"] == "SKIPPED"


def test_all_learn_of_one_end_though_it_is_changed_at_once(client, receiver):
    """More tasks wait than one transaction tells."""
    receiver.answer("/fails", Reply(status=400))
    parent = client.create(delay="1h", max_retries=0, **receiver.target("/fails"))["id"]
    waiting = [client.create(depends_on=[parent], target_type="NOOP")["id"] for _ in range(600)]
    client.act(parent, "run-now")
    client.wait_for(parent, "FAILED")
    client.act(parent, "force-complete")
    assert {client.wait_for(child, "SKIPPED", "COMPLETED")["status"] for child in waiting} == {"SKIPPED"}


def test_dependencies_are_added_removed_and_never_a_cycle(client, receiver):
    first, second, third = (client.create(delay="1h", **receiver.target(f"/{i}"))["id"] for i in range(3))
    assert client.post(f"/v1/tasks/{second}/dependencies", {"depends_on": [first]}).status == 204
    assert client.post(f"/v1/tasks/{third}/dependencies", {"depends_on": [second], "join": "ANY"}).status == 204
    assert client.task(third)["status"] == "BLOCKED" and graph(client, third)["join"] == "ANY"
    cycle = client.post(f"/v1/tasks/{first}/dependencies", {"depends_on": [third]})
    assert cycle.status == 409 and f"{first} → {third} → {second} → {first}" in cycle.json["detail"]
    assert client.request("DELETE", f"/v1/tasks/{third}/dependencies/{second}").status == 204
    assert client.task(third)["status"] == "SCHEDULED"
    assert client.request("DELETE", f"/v1/tasks/{third}/dependencies/{second}").status == 404
    client.act(first, "cancel")
    client.wait_for(second, "SKIPPED")
    assert client.post(f"/v1/tasks/{second}/dependencies", {"depends_on": [third]}).status == 409


def test_a_dependency_has_one_type(client):
    first, second = (client.create(delay="1h", target_type="NOOP")["id"] for _ in range(2))
    path, other = f"/v1/tasks/{second}/dependencies", {"depends_on": [{"task": first, "type": "MUST_FAIL"}]}
    twice = client.post(path, {"depends_on": [first, *other["depends_on"]]})
    assert twice.status == 400 and twice.json["errors"][0]["field"] == "depends_on[1]", twice
    assert [client.post(path, {"depends_on": [first]}).status for _ in range(2)] == [204, 204]  # the same once more
    refused = client.post(path, other)
    assert refused.status == 409 and "MUST_SUCCEED" in refused.json["detail"] and "remove" in refused.json["detail"], refused
    assert client.request("DELETE", f"{path}/{first}").status == 204
    assert client.post(path, other).status == 204
    assert [x["type"] for x in graph(client, second)["depends_on"]] == ["MUST_FAIL"]


def test_a_task_of_a_batch_or_with_a_dedupe_key_has_no_dependencies(client):
    parent = client.create(delay="1h", target_type="NOOP")["id"]
    batch = client.post("/v1/tasks/batch", [{"target_type": "NOOP", "depends_on": [parent]}, {"target_type": "NOOP", "delay": "1h"}]).json
    assert batch["created"] == 1 and "create the task alone" in batch["tasks"][0]["error"]["detail"], batch
    refused = client.post("/v1/tasks", {"target_type": "NOOP", "depends_on": [parent], "dedupe_key": "k"})
    assert refused.status == 400 and refused.json["errors"][0]["field"] == "depends_on" and "dedupe_key" in refused.json["detail"], refused
    assert client.post("/v1/workflows", {"definition": {"steps": [{"name": "a", "target_type": "NOOP"}]}, "depends_on": [parent], "dedupe_key": "k"}).status == 400


def test_pause_resume_and_force(client, receiver):
    parent = client.create(delay="1h", **receiver.target("/parent"))["id"]
    child = client.create(depends_on=[parent], **receiver.target("/child"))["id"]
    client.act(child, "pause")
    assert client.act(child, "resume")["status"] == "BLOCKED"
    client.act(child, "run-now", expect=409)
    assert client.act(child, "run-now", body={"force": True})["status"] == "SCHEDULED"
    receiver.wait("/child")
    client.wait_for(child, "COMPLETED")
    client.act(parent, "cancel")
    assert client.task(child)["status"] == "COMPLETED"


def test_errors_name_the_element_and_the_remedy(client, receiver):
    recurring = client.create(interval_seconds=3600, **receiver.target("/r"))["id"]
    parent = client.create(delay="1h", **receiver.target("/p"))["id"]
    for wrong, says in [(recurring, "recurring"), ("01920000-0000-7000-8000-000000000001", "does not exist"), ("x", "id of a task"),
                        (parent, "same task as depends_on[0]")]:
        answer = client.post("/v1/tasks", {"depends_on": [parent, wrong], **receiver.target("/c")})
        assert answer.status == 400 and answer.json["errors"][0]["field"] == "depends_on[1]", answer
        assert says in answer.json["detail"]


@pytest.mark.own_server
def test_a_chain_survives_kills(server, client, receiver):
    """Each link is killed around; no link starts before the one before it, and none is forgotten."""
    ids = [client.create(delay="1h", **receiver.target("/0"))["id"]]
    for i in range(1, 12):
        ids.append(client.create(depends_on=[ids[-1]], **receiver.target(f"/{i}"))["id"])
    client.act(ids[0], "run-now")
    for i in (2, 6):
        receiver.wait(f"/{i}")
        server.kill()
        server.start()
    receiver.wait("/11", timeout_s=60)
    until(lambda: client.task(ids[-1])["status"] == "COMPLETED", timeout_s=60)
    order = list(dict.fromkeys(call.path for call in receiver.calls))
    assert order == [f"/{i}" for i in range(12)]


def test_the_command_line_creates_and_lists_dependencies(server, client, belfry):
    cli = lambda *words: belfry(*words, "--server", server.url, "--key", server.key)
    parent = cli("add", "--quiet", "--in", "1h", "--noop").out.strip()
    child = cli("add", "--quiet", "--noop", "--after", f"{parent}:must-finish", "--join", "any").out.strip()
    assert "tasks that it depends on" in cli("show", child).out
    out = cli("deps", child).out
    assert "0 of 1 task that it depends on has ended" in out and parent in out and "MUST_FINISH" in out and "ANY" in out
    assert cli("run", "--force", child).code == 0
    client.wait_for(child, "COMPLETED")
