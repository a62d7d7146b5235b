"""Secret headers are encrypted in the store: a canary is found nowhere but at the target."""

import json
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet import Fleet
from redis import Redis, program
from server import Reply, Server, at, now_ms, until

CANARY = "canary-7d1f0b9a-in-a-header"


def headers_of(call):
    return {name.lower(): value for name, value in call.headers.items()}


def files_with_canary(directory):
    return [path for path in directory.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


@pytest.mark.standalone("it looks into the embedded store's files")
def test_a_canary_is_at_the_target_and_nowhere_else(server, client, receiver, belfry, tmp_path):
    target = receiver.target("/once", headers={"Authorization": f"Bearer {CANARY}", "X-Team": "a"})
    made = client.post("/v1/tasks", {"delay": "1d", **target}, key="once")
    again = client.post("/v1/tasks", {"delay": "1d", **target}, key="once")
    task = made.json["id"]
    recurring = client.create(cron_expression="* * * * * *", max_runs=1, **receiver.target("/often", headers={"X-Api-Key": CANARY}))["id"]
    batch = client.post("/v1/tasks/batch", [{"delay": "1d", **target}])
    answers = [made, again, batch, client.get("/v1/tasks"), client.get(f"/v1/tasks/{task}"),
               client.request("PATCH", f"/v1/tasks/{task}", {"target_config": {"headers": {"Authorization": "***", "X-Team": "b"}}}),
               client.get(f"/v1/tasks/{task}/explain"), client.get("/v1/audit"), client.post(f"/v1/tasks/{task}/run-now")]
    call, = receiver.wait("/once")
    assert headers_of(call)["authorization"] == f"Bearer {CANARY}" and headers_of(call)["x-team"] == "b"
    often = receiver.wait("/often")[0]
    assert headers_of(often)["x-api-key"] == CANARY
    client.wait_for(task, "COMPLETED")
    answers += [client.get(f"/v1/tasks/{task}/executions"), client.get(f"/v1/tasks/{recurring}/occurrences")]
    for answer in answers:
        assert answer.status < 300 and CANARY.encode() not in answer.body, answer
    assert belfry("backup", str(tmp_path / "copy"), "--data-dir", str(server.data_dir)).code == 0
    assert not files_with_canary(server.data_dir) and not files_with_canary(tmp_path)
    key_file = server.data_dir / "secrets.key"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    key = key_file.read_text().splitlines()[-1].split()[1].encode()
    assert key not in (tmp_path / "copy").read_bytes()
    assert belfry("backup", "--with-keys", str(tmp_path / "whole"), "--data-dir", str(server.data_dir)).code == 0
    assert key in (tmp_path / "whole").read_bytes()
    server.stop()
    assert not files_with_canary(server.data_dir) and CANARY not in server.log()


@pytest.mark.standalone("the key file of one node")
def test_a_rotated_file_reads_both_and_a_missing_one_stops_the_start(server, client, receiver, belfry):
    old = client.create(delay="1d", **receiver.target("/old", headers={"Cookie": CANARY}))["id"]
    server.stop()
    assert belfry("secrets", "rotate", "--data-dir", str(server.data_dir)).code == 0
    server.start()
    new = client.create(delay="1d", **receiver.target("/new", headers={"Cookie": CANARY}))["id"]
    for task, path in ((old, "/old"), (new, "/new")):
        client.act(task, "run-now")
        assert headers_of(receiver.wait(path)[0])["cookie"] == CANARY
    server.stop()
    key_file = server.data_dir / "secrets.key"
    assert len([line for line in key_file.read_text().splitlines() if not line.startswith("#")]) == 2
    key_file.rename(key_file.with_suffix(".away"))
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(server.data_dir))
    assert done.code == 1 and str(key_file) in done.err and "is missing" in done.err, done
    key_file.with_suffix(".away").rename(key_file)
    os.chmod(key_file, 0o640)
    assert "chmod 600" in belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(server.data_dir)).err
    os.chmod(key_file, 0o600)
    server.start()


def keys_of(key_file):
    return [line for line in key_file.read_text().splitlines() if not line.startswith("#")]


def refused(belfry, data_dir, *words):
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir))
    assert done.code == 1 and all(word in done.err for word in words), done
    return done


@pytest.mark.standalone("the key file of one node")
def test_a_node_with_another_key_file_does_not_start(server, client, receiver, belfry):
    task = client.create(delay="1d", **receiver.target("/other", headers={"Cookie": CANARY}))["id"]
    server.stop()
    key_file = server.data_dir / "secrets.key"
    right, (old, key) = key_file.read_bytes(), keys_of(key_file)[0].split()
    key_file.unlink()
    assert belfry("secrets", "init", "--data-dir", str(server.data_dir)).code == 0
    refused(belfry, server.data_dir, "has other keys than the store", f"lacks key '{old}'", f"belfry secrets forget {old} --key-file {key_file}")
    key_file.write_text(f"{old} {'B' if key[0] == 'A' else 'A'}{key[1:]}\n")
    refused(belfry, server.data_dir, f"has another key '{old}' than the store encrypts with", "put the right file back")
    key_file.write_bytes(right)
    server.start()
    client.act(task, "run-now")
    assert headers_of(receiver.wait("/other")[0])["cookie"] == CANARY


@pytest.mark.standalone("the key file of one node")
def test_a_lost_key_is_given_up_when_the_operator_says_so(server, client, receiver, belfry):
    task = client.create(delay="1d", **receiver.target("/lost", headers={"Cookie": CANARY}))["id"]
    server.stop()
    key_file = server.data_dir / "secrets.key"
    old = keys_of(key_file)[0].split()[0]
    key_file.unlink()
    assert belfry("secrets", "init", "--data-dir", str(server.data_dir)).code == 0
    there = keys_of(key_file)[0].split()[0]
    kept = belfry("secrets", "forget", there, "--data-dir", str(server.data_dir))
    assert kept.code == 1 and "is not lost" in kept.err and keys_of(key_file)[0].split()[0] == there
    if os.geteuid() == 0:
        os.chown(key_file, 65534, 65534)
    assert belfry("secrets", "forget", old, "--data-dir", str(server.data_dir)).code == 0
    if os.geteuid() == 0:
        assert (key_file.stat().st_uid, key_file.stat().st_mode & 0o777) == (65534, 0o600), "root changes the file of a service"
        os.chown(key_file, 0, 0)
    assert f"{old} is lost" in belfry("secrets", "list", "--data-dir", str(server.data_dir)).out
    server.start()
    client.act(task, "run-now")
    assert "which is lost: give the value again" in client.wait_for(task, "FAILED")["last_error"]
    new = client.create(delay="0s", **receiver.target("/new", headers={"Cookie": CANARY}))["id"]
    assert headers_of(receiver.wait("/new")[0])["cookie"] == CANARY
    client.wait_for(new, "COMPLETED")


@pytest.mark.standalone("the key file of one node")
def test_an_old_key_goes_only_when_no_task_needs_it(server, client, receiver, belfry):
    task = client.create(delay="1d", **receiver.target("/a", headers={"Cookie": CANARY}))["id"]
    server.stop()
    key_file = server.data_dir / "secrets.key"
    assert belfry("secrets", "rotate", "--data-dir", str(server.data_dir)).code == 0
    new, old = keys_of(key_file)
    key_file.write_text(new + "\n")
    refused(belfry, server.data_dir, f"lacks key '{old.split()[0]}'")
    key_file.write_text(f"{new}\n{old}\n")
    server.start()
    body = {"target_config": receiver.target("/a", headers={"Cookie": CANARY})["target_config"]}
    assert client.request("PATCH", f"/v1/tasks/{task}", body).status == 200
    server.stop()
    key_file.write_text(new + "\n")
    server.start()
    client.act(task, "run-now")
    assert headers_of(receiver.wait("/a")[0])["cookie"] == CANARY


@pytest.mark.standalone("the key file of one node")
def test_what_an_old_key_encrypted_is_encrypted_again(server, client, receiver, belfry):
    once = client.create(delay="1d", **receiver.target("/once", headers={"Cookie": CANARY, "X-Api-Key": "b"}))["id"]
    often = client.create(cron_expression="0 0 1 1 *", **receiver.target("/often", headers={"Cookie": CANARY}))["id"]
    version = client.task(once)["version"]
    server.stop()
    key_file = server.data_dir / "secrets.key"
    assert belfry("secrets", "rotate", "--data-dir", str(server.data_dir)).code == 0
    new, old = keys_of(key_file)
    server.start()
    until(lambda: not client.get("/v1/scheduler/status").json["secrets"]["older_keys"], timeout_s=40, why=server.log)
    assert client.get("/v1/scheduler/status").json["secrets"]["key"] == new.split()[0]
    assert "secrets_reencrypted" in server.log() and client.task(once)["version"] == version
    server.stop()
    key_file.write_text(new + "\n")
    server.start()
    for task, path in ((once, "/once"), (often, "/often")):
        client.act(task, "run-now")
        assert headers_of(receiver.wait(path)[0])["cookie"] == CANARY
    assert headers_of(receiver.wait("/once")[0])["x-api-key"] == "b"


def test_changes_of_a_key_file_come_one_after_the_other(belfry, tmp_path):
    keys = tmp_path / "secrets.key"
    assert belfry("secrets", "init", "--key-file", str(keys)).code == 0
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda verb: belfry("secrets", verb, "--key-file", str(keys)), ["rotate", "add"] * 4))
    assert all(d.code == 0 for d in done) and len(keys_of(keys)) == 9
    last = keys_of(keys)[-1]
    assert belfry("secrets", "use", last.split()[0], "--key-file", str(keys)).code == 0
    assert keys_of(keys)[0] == last and len(keys_of(keys)) == 9
    listed = belfry("secrets", "list", "--key-file", str(keys)).out.splitlines()
    assert listed[0] == f"{last.split()[0]} encrypts and decrypts" and len(listed) == 9
    assert belfry("secrets", "use", "aaaaaaaa", "--key-file", str(keys)).code == 1


@pytest.mark.standalone("a backup of the embedded store")
def test_a_backup_without_keys_says_what_its_restore_needs(server, client, receiver, belfry, tmp_path):
    client.create(delay="1d", **receiver.target("/x", headers={"Cookie": CANARY}))
    data = ("--data-dir", str(server.data_dir))
    both = belfry("backup", "--with-keys", "--without-secrets", str(tmp_path / "both"), *data)
    assert both.code == 2 and "contradict each other" in both.err and not (tmp_path / "both").exists()
    old = keys_of(server.data_dir / "secrets.key")[0].split()[0]
    done = belfry("backup", str(tmp_path / "plain"), *data)
    assert done.code == 0 and f"not the key '{old}' that they need" in done.err and "--with-keys" in done.err, done
    done = belfry("backup", "--with-keys", str(tmp_path / "whole"), *data)
    assert (done.code, done.err) == (0, ""), done
    done = belfry("restore", str(tmp_path / "plain"), "--data-dir", str(tmp_path / "a"))
    assert done.code == 0 and f"has key '{old}', to {tmp_path}/a/secrets.key" in done.err, done
    assert "the file has encrypted secrets and not the key that they need" in done.err and "headers" not in done.err
    done = belfry("restore", str(tmp_path / "whole"), "--data-dir", str(tmp_path / "b"))
    assert done.code == 0 and "secrets.key" not in done.err, done


def test_a_definition_shows_no_secret_and_keeps_it(client, receiver):
    target = receiver.target("/step", headers={"Authorization": f"Bearer {CANARY}", "X-Team": "a"})
    undo = receiver.target("/undo", headers={"X-Api-Key": {"$join": [CANARY, {"$ref": "/input/id"}]}})
    body = json.dumps({"steps": [{"name": "a", "compensate": undo, **target}]}, indent=2).encode()
    path = "/v1/workflow-definitions/secrets"
    assert client.request("PUT", path, raw=body).status == 201
    shown = client.get(path)
    assert CANARY.encode() not in shown.body and shown.body.count(b'"***"') == 2
    again = client.request("PUT", path, shown.json["definition"])
    assert again.status == 200 and CANARY.encode() not in again.body
    raw = body.replace(f'"Bearer {CANARY}"'.encode(), b'"***"')
    same = client.request("PUT", path, raw=raw)
    assert same.status == 200 and same.json["hash"] == shown.json["hash"], same
    elsewhere = shown.json["definition"]
    elsewhere["steps"][0]["target_config"]["url"] = "https://other.example/step"
    refused = client.request("PUT", path, elsewhere)
    field = "steps[0].target_config.headers.Authorization"
    assert refused.status == 400 and refused.json["errors"][0]["field"] == field, refused
    assert "must be given again, because the host or broker is another one" in str(refused.json), refused
    renamed = client.get(path).json["definition"]
    renamed["steps"][0]["name"] = "b"
    refused = client.request("PUT", path, renamed)
    assert refused.status == 400 and "the latest version has no such header in a step of this name" in str(refused.json), refused
    run = client.post("/v1/workflows", {"workflow": "secrets", "input": {"id": 7}})
    assert run.status == 201, run
    assert headers_of(receiver.wait("/step")[0])["authorization"] == f"Bearer {CANARY}"


def secret_workflow(receiver):
    """A definition with the canary at every place where a definition can have a secret header."""
    token = {"Authorization": f"Bearer {CANARY}"}
    joined = {"X-Api-Key": {"$join": [f"{CANARY}-", {"$ref": "/input/id", "default": f"{CANARY}-none"}]}}
    return json.loads(json.dumps({"steps": [
        {"name": "plain", **receiver.target("/plain", headers=token), "compensate": receiver.target("/undo-plain", headers=token)},
        {"name": "joined", **receiver.target("/joined", headers=joined), "compensate": receiver.target("/undo-joined", headers=joined)},
        {"name": "if", "when": {"ref": "/input/id", "op": "eq", "value": 7}, **receiver.target("/if", headers=token)},
        {"name": "late", "delay": "50ms", "depends_on": ["plain"], **receiver.target("/late", headers=token)},
        {"name": "each", "map": {"over": {"$ref": "/input/items"}}, **receiver.target("/each", headers=token),
         "compensate": receiver.target("/undo-each", headers=token)},
        {"name": "last", "depends_on": ["*"], "retry": {"max_attempts": 1}, **receiver.target("/last", headers={"Cookie": CANARY})},
    ]}))


RUN_INPUT = {"id": 7, "items": ["a", "b"]}


def assert_workflow_calls(receiver, undone):
    calls = {"/plain": 1, "/joined": 1, "/if": 1, "/late": 1, "/each": 2, "/last": 1}
    for path, count in {**calls, **({"/undo-plain": 1, "/undo-joined": 1, "/undo-each": 2} if undone else {})}.items():
        for call in receiver.wait(path, count):
            headers = headers_of(call)
            wanted = ("x-api-key", f"{CANARY}-7") if "joined" in path else ("cookie", CANARY) if path == "/last" else ("authorization", f"Bearer {CANARY}")
            assert headers.get(wanted[0]) == wanted[1], (path, headers)


@pytest.mark.standalone("it looks into the embedded store's files")
def test_a_canary_in_a_definition_is_at_the_targets_and_nowhere_else(server, client, receiver, belfry, tmp_path):
    receiver.answer("/last", Reply(status=400))
    path, body = "/v1/workflow-definitions/canary", secret_workflow(receiver)
    answers = [client.request("PUT", path, body), client.request("PUT", path, body), client.get(path)]
    assert [a.status for a in answers] == [201, 200, 200] and answers[1].json["changed"] is False
    named = client.post("/v1/workflows", {"workflow": "canary", "input": RUN_INPUT}, key="named")
    run = named.json["id"]
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "FAILED", why=server.log)
    assert_workflow_calls(receiver, undone=True)
    inline = client.post("/v1/workflows", {"definition": body, "input": RUN_INPUT})
    outer = client.post("/v1/workflows", {"definition": {"steps": [
        {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "canary", "input": RUN_INPUT}}]}})
    rerun = client.post(f"/v1/workflows/{run}/rerun", {"from": "last"})
    for made in (inline, outer, rerun):
        assert made.status == 201, made
        until(lambda: client.get(f"/v1/workflows/{made.json['id']}").json["status"] == "FAILED", why=server.log)
    assert_workflow_calls(receiver, undone=True)
    answers += [named, inline, outer, rerun, client.get("/v1/workflows"), client.get(f"/v1/workflows/{run}"), client.get("/v1/audit")]
    for step in client.get(f"/v1/workflows/{run}/steps").json["steps"]:
        answers += [client.get(f"/v1/tasks/{step['id']}"), client.get(f"/v1/tasks/{step['id']}/explain"), client.get(f"/v1/tasks/{step['id']}/executions")]
    for answer in answers:
        assert answer.status < 300 and CANARY.encode() not in answer.body, answer
    data = ("--data-dir", str(server.data_dir))
    assert belfry("backup", str(tmp_path / "copy"), *data).code == 0
    assert not files_with_canary(server.data_dir) and not files_with_canary(tmp_path)
    done = belfry("restore", str(tmp_path / "copy"), "--data-dir", str(tmp_path / "restored"))
    assert done.code == 0 and "secrets.key" in done.err, done
    server.stop()
    assert not files_with_canary(server.data_dir) and CANARY not in server.log()


@pytest.mark.standalone("the key file of one node")
def test_definitions_are_encrypted_again_and_need_their_key(server, client, receiver, belfry):
    path, body = "/v1/workflow-definitions/again", secret_workflow(receiver)
    first = client.request("PUT", path, body).json
    server.stop()
    key_file = server.data_dir / "secrets.key"
    right = key_file.read_bytes()
    key_file.unlink()
    assert belfry("secrets", "init", "--data-dir", str(server.data_dir)).code == 0
    refused(belfry, server.data_dir, "has other keys than the store")
    key_file.write_bytes(right)
    assert belfry("secrets", "rotate", "--data-dir", str(server.data_dir)).code == 0
    new = keys_of(key_file)[0]
    server.start()
    until(lambda: not client.get("/v1/scheduler/status").json["secrets"]["older_keys"], timeout_s=40, why=server.log)
    server.stop()
    key_file.write_text(new + "\n")
    server.start()
    same = client.request("PUT", path, body).json
    assert (same["version"], same["hash"], same["changed"]) == (first["version"], first["hash"], False)
    shown = client.get(path).json["definition"]
    assert client.request("PUT", path, shown).json["version"] == 1 and client.request("PUT", path, raw=json.dumps(body, indent=1).encode()).json["version"] == 2
    run = client.post("/v1/workflows", {"workflow": "again", "input": RUN_INPUT}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "COMPLETED", why=server.log)
    assert_workflow_calls(receiver, undone=False)
    assert not files_with_canary(server.data_dir)


@pytest.mark.standalone("it changes the embedded store's file")
def test_definitions_of_an_earlier_version_are_encrypted(server, client, receiver):
    path, body = "/v1/workflow-definitions/old", secret_workflow(receiver)
    made = client.request("PUT", path, body).json
    server.stop()
    store = sqlite3.connect(server.data_dir / "belfry.db")
    text = json.dumps(body)
    with store:
        assert store.execute("UPDATE definitions SET text = ?", (text,)).rowcount == 1
    server.start()

    def stored():
        with sqlite3.connect(f"file:{server.data_dir}/belfry.db?mode=ro", uri=True) as db:
            return db.execute("SELECT text FROM definitions").fetchone()[0]

    until(lambda: CANARY not in stored(), why=server.log)
    assert stored().count("enc:1:") == text.count(CANARY)
    assert client.get(path).json["hash"] == made["hash"]
    run = client.post("/v1/workflows", {"workflow": "old", "input": RUN_INPUT}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "COMPLETED", why=server.log)
    assert_workflow_calls(receiver, undone=False)


@pytest.mark.standalone("the key file of one node")
def test_a_step_whose_key_is_lost_says_so(server, client, receiver, belfry):
    path, body = "/v1/workflow-definitions/lost", {"steps": [{"name": "a", **receiver.target("/lost", headers={"Cookie": CANARY})}]}
    assert client.request("PUT", path, body).status == 201
    server.stop()
    key_file = server.data_dir / "secrets.key"
    old = keys_of(key_file)[0].split()[0]
    key_file.unlink()
    for verb in (("init",), ("forget", old)):
        assert belfry("secrets", *verb, "--data-dir", str(server.data_dir)).code == 0
    server.start()
    shown = client.get(path)
    assert shown.status == 200 and shown.json["definition"]["steps"][0]["target_config"]["headers"] == {"Cookie": "***"}
    kept = client.request("PUT", path, {**shown.json["definition"], "description": "x"})
    assert kept.status == 400 and "cannot be decrypted any more" in str(kept.json), kept
    run = client.post("/v1/workflows", {"workflow": "lost"}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "FAILED", why=server.log)
    assert "which is lost: give the value again" in client.get(f"/v1/workflows/{run}/steps/a").json["last_error"]
    assert client.request("PUT", path, body).json["version"] == 2
    again = client.post("/v1/workflows", {"workflow": "lost"}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{again}").json["status"] == "COMPLETED", why=server.log)
    assert headers_of(receiver.wait("/lost")[0])["cookie"] == CANARY


def test_a_definition_that_drops_a_secret_header_is_told_so(client, receiver):
    path, body = "/v1/workflow-definitions/drops", secret_workflow(receiver)
    assert client.request("PUT", path, body).json["warnings"] == []
    del body["steps"][0]["target_config"]["headers"]
    del body["steps"][1]["compensate"]["target_config"]["headers"]["X-Api-Key"]
    del body["steps"][2]
    told = client.request("PUT", path, body).json["warnings"]
    assert [w["field"] for w in told] == ["steps[0].target_config.headers.Authorization", "steps[1].compensate.target_config.headers.X-Api-Key"]
    assert all("to keep its value, send it as ***" in w["message"] for w in told)
    assert client.request("PUT", path, body).json["warnings"] == []
    run = client.post("/v1/workflows", {"workflow": "drops", "input": RUN_INPUT}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "COMPLETED")
    assert "authorization" not in headers_of(receiver.wait("/plain")[0])


def test_the_same_value_given_again_is_no_change(client, receiver):
    body = {"dedupe_key": "same", "dedupe_window_seconds": 3600, "dedupe_action": "REPLACE", "run_at": at(now_ms() + 86400000)}
    target = receiver.target("/same", headers={"Cookie": CANARY, "X-Api-Key": "k"})
    task = client.create(**body, **target)
    for edit in (target, {"target_config": {"headers": {"Cookie": CANARY}}}, {"target_config": {"headers": {"Cookie": "***"}}}):
        answer = client.request("PATCH", f"/v1/tasks/{task['id']}", edit)
        assert answer.status == 200 and answer.json["version"] == task["version"], answer
    assert client.post("/v1/tasks", {**body, **target}).json["id"] == task["id"]
    version = client.task(task["id"])["version"]
    assert client.post("/v1/tasks", {**body, **target}).json["id"] == task["id"] and client.task(task["id"])["version"] == version
    changed = client.request("PATCH", f"/v1/tasks/{task['id']}", {"target_config": {"headers": {"Cookie": "other"}}})
    assert changed.json["version"] == version + 1


def test_a_cluster_goes_back_to_an_older_key(postgres_server, receiver, belfry, tmp_path):
    database = postgres_server.new_database()
    keys = tmp_path / "secrets.key"
    known = "SELECT name FROM cluster WHERE name LIKE 'key:%'"
    assert belfry("secrets", "init", "--key-file", str(keys)).code == 0
    first = keys_of(keys)[0].split()[0]
    node = Server(tmp_path / "node", "--store", postgres_server.url(database), env={"BELFRY_SECRETS_KEY_FILE": str(keys)})
    try:
        node.start().stop()
        assert belfry("secrets", "rotate", "--key-file", str(keys)).code == 0
        client = node.start().client()
        task = client.create(delay="1d", **receiver.target("/back", headers={"Cookie": CANARY}))["id"]
        node.stop()
        assert belfry("secrets", "use", first, "--key-file", str(keys)).code == 0
        client = node.start().client()
        until(lambda: postgres_server.sql(known, database) == [f"key:{first}"], timeout_s=40, why=node.log)
        client.act(task, "run-now")
        assert headers_of(receiver.wait("/back")[0])["cookie"] == CANARY
    finally:
        node.close()


@pytest.mark.standalone("of one node")
def test_a_dedupe_key_that_replaces_a_task_takes_its_secrets_along(client, receiver):
    body = {"dedupe_key": "one", "dedupe_window_seconds": 3600, "dedupe_action": "REPLACE", "delay": "1d"}
    first = client.create(**body, **receiver.target("/first", headers={"Cookie": "a"}))["id"]
    answer = client.post("/v1/tasks", {**body, **receiver.target("/second", headers={"Cookie": CANARY})})
    assert answer.json["id"] == first, answer
    client.act(first, "run-now")
    assert headers_of(receiver.wait("/second")[0])["cookie"] == CANARY


@pytest.mark.standalone("beside it, a single node, which encrypts")
def test_a_cluster_without_a_key_file_says_so(postgres_server, client, tmp_path):
    assert client.get("/v1/scheduler/status").json["secrets"]["encrypted"] is True
    assert b"belfry_secrets_plaintext 0" in client.get("/metrics").body
    node = Server(tmp_path / "plain", "--store", postgres_server.url(postgres_server.new_database()))
    try:
        plain = node.start().client()
        assert node.log().count("secrets_not_encrypted") == 1, node.log()
        assert plain.get("/v1/scheduler/status").json["secrets"] == {"encrypted": False}
        assert b"belfry_secrets_plaintext 1" in plain.get("/metrics").body
    finally:
        node.stop()


def test_nodes_of_a_cluster_need_the_same_file(postgres_server, receiver, belfry, tmp_path):
    database = postgres_server.new_database()
    url = postgres_server.url(database)
    keys = tmp_path / "secrets.key"
    assert belfry("secrets", "init", "--key-file", str(keys)).code == 0
    assert belfry("secrets", "init", "--key-file", str(keys)).code == 1
    first = Server(tmp_path / "first", "--store", url, env={"BELFRY_SECRETS_KEY_FILE": str(keys)})
    try:
        client = first.start().client()
        made = client.create(delay="1d", **receiver.target("/c", headers={"Cookie": CANARY}))["id"]
        missing = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "second"), "--store", url)
        assert missing.code == 1 and "every node needs the same file" in missing.err, missing
        other = tmp_path / "other.key"
        assert belfry("secrets", "init", "--key-file", str(other)).code == 0
        wrong = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "second"), "--store", url,
                       env={"BELFRY_SECRETS_KEY_FILE": str(other)})
        assert wrong.code == 1 and "other keys" in wrong.err and str(other) in wrong.err, wrong
        client.act(made, "run-now")
        assert headers_of(receiver.wait("/c")[0])["cookie"] == CANARY
        known = postgres_server.sql("SELECT name FROM cluster WHERE name LIKE 'key:%'", database)
        postgres_server.sql("DELETE FROM cluster WHERE name LIKE 'key:%'", database)  # as an earlier version left it
        wrong = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "second"), "--store", url,
                       env={"BELFRY_SECRETS_KEY_FILE": str(other)})
        assert wrong.code == 1 and "other keys" in wrong.err, wrong
        rotated = tmp_path / "rotated.key"
        rotated.write_bytes(keys.read_bytes())
        os.chmod(rotated, 0o600)
        assert belfry("secrets", "rotate", "--key-file", str(rotated)).code == 0
        second = Server(tmp_path / "second", "--store", url, env={"BELFRY_SECRETS_KEY_FILE": str(rotated)})
        try:
            second.start()
            assert set(known) < set(postgres_server.sql("SELECT name FROM cluster WHERE name LIKE 'key:%'", database))
        finally:
            second.close()
        late = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "third"), "--store", url,
                      env={"BELFRY_SECRETS_KEY_FILE": str(keys)})
        assert late.code == 1 and f"lacks key '{keys_of(rotated)[0].split()[0]}'" in late.err, late
    finally:
        first.close()


def test_a_cluster_encrypts_again_and_drops_the_old_key(postgres_server, receiver, belfry, tmp_path):
    database = postgres_server.new_database()
    keys = tmp_path / "secrets.key"
    known = "SELECT name FROM cluster WHERE name LIKE 'key:%'"
    assert belfry("secrets", "init", "--key-file", str(keys)).code == 0
    node = Server(tmp_path / "node", "--store", postgres_server.url(database), env={"BELFRY_SECRETS_KEY_FILE": str(keys)})
    try:
        client = node.start().client()
        task = client.create(delay="1d", **receiver.target("/again", headers={"Cookie": CANARY}))["id"]
        node.stop()
        assert belfry("secrets", "rotate", "--key-file", str(keys)).code == 0
        new = keys_of(keys)[0]
        client = node.start().client()
        until(lambda: f"key:{new.split()[0]}" in "".join(postgres_server.sql(known, database)) and
              len(postgres_server.sql(known, database)) == 1, timeout_s=40, why=node.log)
        node.stop()
        keys.write_text(new + "\n")
        client = node.start().client()
        client.act(task, "run-now")
        assert headers_of(receiver.wait("/again")[0])["cookie"] == CANARY
    finally:
        node.close()


@pytest.mark.skipif(not program(), reason="Redis: Debian's package redis-server is not installed")
def test_workers_of_a_fleet_decrypt_what_the_queue_carries(postgres, build, receiver, belfry, tmp_path):
    database, keys = postgres.new_database(), tmp_path / "secrets.key"
    assert belfry("secrets", "init", "--key-file", str(keys)).code == 0
    with Redis() as redis:
        fleet = Fleet(tmp_path / "fleet", postgres.url(database), ("--queue", redis.url(), "--events", redis.url()), nodes=1, workers=1,
                      env={"BELFRY_SECRETS_KEY_FILE": str(keys)})
        try:
            client = fleet.start().client()
            made = client.create(run_at=at(now_ms() + 200), **receiver.target("/fleet", headers={"Authorization": f"Bearer {CANARY}"}))["id"]
            assert headers_of(receiver.wait("/fleet")[0])["authorization"] == f"Bearer {CANARY}"
            client.wait_for(made, "COMPLETED")
            run = client.post("/v1/workflows", {"definition": secret_workflow(receiver), "input": RUN_INPUT}).json["id"]
            until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "COMPLETED", why=fleet.log)
            assert_workflow_calls(receiver, undone=False)
            columns = "SELECT count(*) FROM {0} AS x WHERE strpos(x::text, '%s') > 0" % CANARY
            for table in ("tasks", "definitions", "executions"):
                assert postgres.sql(columns.format(table), database) == ["0"]
            assert not files_with_canary(tmp_path) and CANARY not in fleet.log()
        finally:
            fleet.close()
            postgres.start().drop_database(database)


@pytest.mark.skipif(not program(), reason="Redis: Debian's package redis-server is not installed")
def test_a_worker_without_the_keys_fails_no_task(postgres, build, receiver, belfry, tmp_path):
    database, keys = postgres.new_database(), tmp_path / "secrets.key"
    assert belfry("secrets", "init", "--key-file", str(keys)).code == 0
    with Redis() as redis:
        fleet = Fleet(tmp_path / "fleet", postgres.url(database), ("--queue", redis.url(), "--events", redis.url()), nodes=1, workers=1,
                      env=[{"BELFRY_SECRETS_KEY_FILE": str(keys)}])
        try:
            client = fleet.start().client()
            made = client.create(delay="0s", **receiver.target("/late", headers={"Authorization": f"Bearer {CANARY}"}))["id"]
            worker = fleet.workers[0]
            until(lambda: "secrets_key_missing" in worker.log(), why=worker.log)
            until(lambda: "which secrets.key_file lacks here" in (client.task(made)["last_error"] or ""))
            assert client.task(made)["status"] != "FAILED" and client.task(made)["attempts"] == 0
            names = [w["name"] for w in client.get("/v1/workers").json["workers"]]
            why = until(lambda: [x for x in [client.get(f"/v1/tasks/{made}/explain").json["explanation"]] if "secrets.key_file" in x])[0]
            assert "it was held: " in why and any(f"(on {name})" in why for name in names), (why, names)
            fleet.add_worker(env={"BELFRY_SECRETS_KEY_FILE": str(keys)})
            worker.stop()
            client.wait_for(made, "COMPLETED")
            assert headers_of(receiver.wait("/late")[0])["authorization"] == f"Bearer {CANARY}"
        finally:
            fleet.close()
            postgres.start().drop_database(database)


@pytest.mark.standalone("the key file of one node")
def test_a_change_of_the_key_file_follows_links_and_leaves_nothing_beside_it(tmp_path, belfry):
    real, link, pipe = tmp_path / "real.key", tmp_path / "link.key", tmp_path / "pipe.key"
    assert belfry("secrets", "init", "--key-file", str(real)).code == 0
    link.symlink_to(real)
    (tmp_path / "real.key.new").write_text("left by a change that was killed")
    assert belfry("secrets", "add", "--key-file", str(link)).code == 0
    assert link.is_symlink() and len(keys_of(real)) == 2 and sorted(p.name for p in tmp_path.iterdir()) == ["link.key", "real.key"]
    os.mkfifo(pipe)
    done = belfry("secrets", "list", "--key-file", str(pipe))
    assert done.code == 1 and "is not a file" in done.err
