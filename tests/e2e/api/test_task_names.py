"""Tasks that are given by their name or by the beginning of their id: GET /v1/tasks?id=, GET /v1/tasks/names, and the commands."""

import pytest

from server import until

pytestmark = [pytest.mark.tenant, pytest.mark.text("names that commands take")]


@pytest.fixture
def ask(belfry, server, tmp_path):
    def run(*args, **more):
        return belfry(*args, env={"HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}, **more)
    return run


@pytest.mark.cluster(when="always")
def test_a_task_is_found_by_its_name_and_by_the_beginning_of_its_id(ask, client):
    tick = client.create(name="tick", interval_seconds=1, target_type="NOOP")
    first, second = (client.create(name="report", delay="1h", target_type="NOOP") for _ in range(2))
    run = until(lambda: client.get(f"/v1/tasks/{tick['id']}/occurrences?status=COMPLETED").json["tasks"])[0]
    until(lambda: ask("show", "tick").code == 0)  # a list may lag for a moment on another node

    assert ask("history", "tick").lines[0].startswith("WHEN")
    assert ask("pause", "tick").out.startswith(f"{tick['id']} paused\n")
    assert ask("show", tick["id"][:-1]).lines[0].split() == ["Id", tick["id"]]
    assert ask("show", run["id"][:-1]).lines[0].split() == ["Id", run["id"]], "an occurrence"
    refused = ask("cancel", "report")
    assert refused.code == 1 and refused.out == "" and first["id"] in refused.err and second["id"] in refused.err
    assert client.get(f"/v1/tasks/{first['id']}").json["status"] == "SCHEDULED"

    assert client.get("/v1/tasks/names").json["names"] == [{"name": "report", "task_id": second["id"], "only": False},
                                                           {"name": "tick", "task_id": tick["id"], "only": True}]
    assert [n["name"] for n in client.get("/v1/tasks/names?prefix=t&limit=1").json["names"]] == ["tick"]
    listed = lambda query: [t["id"] for t in client.get(f"/v1/tasks?{query}").json["tasks"]]
    assert listed(f"id={first['id']}") == [first["id"]] and listed(f"id={first['id'].upper()[:-1]}") == [first["id"]]
    assert listed(f"id={tick['id'][0]}&limit=2") == [second["id"], first["id"]]
    assert listed("id=f") == [] and listed(f"id={run['id']}") == [] and listed(f"id={run['id']}&occurrences=true") == [run["id"]]
    assert client.get("/v1/tasks?id=report").json["errors"][0]["field"] == "id"


@pytest.mark.own_server
def test_other_tenants_names_are_not_found(ask, client):
    client.create(name="secret-plan", delay="1h", target_type="NOOP")
    assert client.post("/v1/tenants", {"name": "acme"}).status == 201
    key = client.post("/v1/api-keys", {"name": "x", "scopes": ["tasks:read"], "tenant": "acme"}).json["key"]
    assert ask("show", "secret-plan", "--key", key).code == 1
    assert ask("__complete", "--", "show", "--key", key, "secret").out == ""


def test_jobs_breakers_and_keys_are_found_by_a_beginning_or_a_name(ask, client):
    job = client.post("/v1/tasks/bulk", {"action": "pause", "filter": {"name": "nothing"}}).json["id"]
    assert ask("job", "show", job[:-1]).out == "0 done\n"
    assert ask("job", "show", "zzz").err == "belfry job: there is no such job: 'zzz'; 'belfry job list' prints them\n"
    assert ask("breakers", "close", "nonsense").err == (
        "belfry breakers: there is no such circuit breaker: 'nonsense'; 'belfry breakers list' prints them\n")
    for _ in range(2):
        assert client.post("/v1/api-keys", {"name": "deploy", "scopes": ["tasks:read"]}).status == 201
    assert client.post("/v1/api-keys", {"name": "old", "scopes": ["tasks:read"]}).status == 201
    assert ask("key", "revoke", "deploy").err == "belfry key: 'deploy' fits 2 of them; 'belfry key list' prints them\n"
    assert ask("key", "revoke", "old").out == "old revoked\n"
