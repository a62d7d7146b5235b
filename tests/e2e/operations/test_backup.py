"""Backup and restore: online, verified, all or nothing, and with what it takes to log in.

The oracle is what clients were told and what the receiver got, not the file."""

import json
import os
import pty
import random
import re
import shutil
import signal
import stat
import subprocess
import threading
import time

import pytest

from conftest import BUILD, ROOT
from server import at, now_ms

pytestmark = pytest.mark.standalone("it copies the embedded store")

TASKS = 300


def backup(belfry, server, path, *more):
    return belfry("backup", path, "--data-dir", server.data_dir, *more)


def restore(belfry, path, directory, *more, **env):
    return belfry("restore", path, "--data-dir", directory, *more, **env)


def create_noops(client, count, delay="1h"):
    answer = client.post("/v1/tasks/batch", [{"target_type": "NOOP", "delay": delay}] * count)
    assert answer.status == 201, answer
    return [task["id"] for task in answer.json["tasks"]]


def start_on_terminal(directory, until):
    """What a server prints on a terminal, up to the line with this text."""
    master, slave = pty.openpty()
    text = b""
    with subprocess.Popen([BUILD / "belfry", "serve", "--listen", "127.0.0.1:0", "--data-dir", directory], stderr=slave) as process:
        os.close(slave)
        while until.encode() not in text or not text.endswith(b"\n"):
            text += os.read(master, 65536)
        process.terminate()
    os.close(master)
    return text.decode()


def test_data_that_was_copied_warns_whoever_goes_on_with_it(belfry, make_server, tmp_path):
    server = make_server()
    create_noops(server.client(), 2)
    server.stop()
    mark = {"copied_to": "postgres://belfry:***@db/belfry", "copied_at": "2026-11-01T10:00:00.000Z"}
    (server.data_dir / "copied-to").write_text(json.dumps(mark))
    done = backup(belfry, server, tmp_path / "a.db")
    assert "contains 2 tasks (all tenants, with occurrences: 2 SCHEDULED), " in done.out
    assert done.code == 0 and "copied to postgres://belfry:***@db/belfry at 2026-11-01T10:00:00" in done.err and "pg_dump" in done.err
    server.start()
    [line] = [line for line in server.lines if "data_was_copied" in line]
    assert "copied_to=postgres://belfry:***@db/belfry" in line and "copied_at=2026-11-01T10:00:00" in line and "remedy=" in line
    server.stop()
    assert f"remove {server.data_dir}/copied-to" in start_on_terminal(server.data_dir, f"remove {server.data_dir}")
    kept = restore(belfry, tmp_path / "a.db", server.data_dir, "--force", "--json")
    assert kept.code == 0 and not (server.data_dir / "copied-to").exists()
    assert (server.data_dir / json.loads(kept.out)["kept"] / "copied-to").exists()
    assert "copied to" not in backup(belfry, server, tmp_path / "b.db").err


@pytest.mark.parametrize("flag", ["--server", "--key"])
def test_a_backup_refuses_options_that_it_would_ignore(belfry, tmp_path, flag):
    done = belfry("backup", tmp_path / "a.db", flag, "x")
    assert done.code == 2 and flag in done.err.splitlines()[0]
    assert flag not in belfry("backup", "--help").out


class Creator(threading.Thread):
    """Asks for tasks that call the receiver, one after the other, and notes which were acknowledged when."""

    def __init__(self, server, receiver, due_ms):
        super().__init__(daemon=True)
        self.server, self.receiver, self.due_ms = server, receiver, due_ms
        self.acknowledged, self.ending = [], threading.Event()

    def run(self):
        client = self.server.client()
        while not self.ending.is_set():
            path = f"/restored/{len(self.acknowledged)}"
            task = client.create(name=path, run_at=at(self.due_ms), **self.receiver.target(path))
            self.acknowledged.append((task["id"], path))
            time.sleep(0.002)  # a pace, not a wait
        client.close()

    def end(self):
        self.ending.set()
        self.join()


# ---- the whole way ----


def test_backup_under_load_restores_all_that_was_acknowledged_and_it_fires(belfry, make_server, receiver, tmp_path):
    """The backup is killed a few times first, and leaves nothing that bears the name."""
    server = make_server()
    create_noops(server.client(), 1000)
    chance = random.Random(4)
    path = tmp_path / "copy.db"
    creator = Creator(server, receiver, now_ms() + 20000)
    creator.start()
    killed = 0
    for _ in range(12):
        process = subprocess.Popen([BUILD / "belfry", "backup", path, "--force", "--data-dir", server.data_dir],
                                   stdout=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(0.005, 0.15))
        except subprocess.TimeoutExpired:
            process.kill()
        if process.wait() == -signal.SIGKILL:
            killed += 1
            if path.exists():
                assert restore(belfry, path, tmp_path / f"after{killed}").code == 0, "what bears the name is good"
    assert killed > 0
    before = list(creator.acknowledged)
    done = backup(belfry, server, path, "--force", "--json")
    creator.end()
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["tasks"]["SCHEDULED"] >= 1000 + len(before) and facts["secrets"] is True
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    server.kill()

    copy = make_server(start=False)
    done = restore(belfry, path, copy.data_dir)
    assert done.code == 0 and f"{copy.data_dir} contains " in done.out and "SCHEDULED" in done.out and done.err == ""
    assert {stat.S_IMODE(f.stat().st_mode) for f in copy.data_dir.iterdir()} == {0o600}
    copy.start()
    assert copy.key == server.key
    client = copy.client()
    for task, _ in before:
        assert client.task(task)["id"] == task
    for _, called in before:
        receiver.wait(called)


@pytest.mark.parametrize("place", ["restore_ready", "restore_decided", "restore_halfway"])
@pytest.mark.parametrize("how", ["fresh", "over old data"])
def test_restore_killed_halfway_is_all_or_nothing(belfry, make_server, tmp_path, place, how):
    server, other = make_server(), make_server()
    ids = create_noops(server.client(), 50)
    path = tmp_path / "copy.db"
    assert backup(belfry, server, path).code == 0
    old = create_noops(other.client(), 7) if how != "fresh" else []
    other.kill()  # its log stays, and must not get into the restored store
    if how == "fresh":
        for file in other.data_dir.iterdir():
            file.unlink()
    killed = restore(belfry, path, other.data_dir, "--force", env={"BELFRY_FAILPOINT": f"{place}:kill"})
    assert killed.code == -signal.SIGKILL
    other.start()
    client = other.client()
    found = {task["id"] for task in client.all("/v1/tasks")}
    decided = place != "restore_ready"
    assert found == set(ids if decided else old)
    if decided:
        assert other.key == server.key
    other.stop()
    again = restore(belfry, path, other.data_dir, "--force")
    assert again.code == 0, again.err
    other.start()
    assert {task["id"] for task in other.client().all("/v1/tasks")} == set(ids)


def test_what_is_replaced_is_kept_as_a_data_directory(belfry, make_server, tmp_path):
    server, other = make_server(), make_server()
    path = tmp_path / "copy.db"
    create_noops(server.client(), 3)
    assert backup(belfry, server, path).code == 0
    old, old_key = create_noops(other.client(), 5), other.key
    other.kill()
    done = restore(belfry, path, other.data_dir, "--force", "--json")
    assert done.code == 0, done.err
    kept = make_server(start=False)
    kept.data_dir = other.data_dir / json.loads(done.out)["kept"]
    kept.start()
    assert kept.key == old_key
    assert {task["id"] for task in kept.client().all("/v1/tasks")} == set(old)


def lease_fence(client):
    """Leases the only task, gives it back at once, and returns the fence."""
    (held,) = client.post("/v1/leases", {"queue": "work", "wait_seconds": 20}).json["leases"]
    assert client.post(f"/v1/leases/{held['id']}/fail", {"error": "again", "retry_after_seconds": 0}).status == 200
    return held["fence"]


def test_a_restored_or_copied_store_gives_out_higher_fences(belfry, make_server, tmp_path):
    server, restored, copied = make_server(), make_server(start=False), make_server(start=False)
    client = server.client()
    client.create(target_type="WORKER", queue="work", retry={"max_attempts": 99})
    assert lease_fence(client) == 1
    assert backup(belfry, server, tmp_path / "copy.db").code == 0
    assert [lease_fence(client) for _ in range(3)] == [2, 3, 4]
    server.stop()
    shutil.copytree(server.data_dir, copied.data_dir, dirs_exist_ok=True)
    server.start()
    assert lease_fence(server.client()) == 5  # its own file
    assert restore(belfry, tmp_path / "copy.db", restored.data_dir).code == 0
    for other in (restored, copied):
        other.start()
        first = lease_fence(other.client())
        assert 5 < first < 2**53
        other.stop()
        other.start()
        assert lease_fence(other.client()) == first + 1


def test_the_example_of_the_documents_does_what_it_shows(belfry, make_server, tmp_path):
    server = make_server()
    client = server.client()
    create_noops(client, 2)
    client.wait_for(client.create(target_type="NOOP")["id"], "COMPLETED")
    shown = re.findall(r"^\$ belfry ((?:backup|restore) .*)\n(.*)\n", (ROOT / "docs/OPERATIONS.md").read_text(), re.M)
    assert [words.split()[0] for words, _ in shown] == ["backup", "restore"]
    for words, output in shown:
        for there, here in (("/var/lib/belfry-new", tmp_path / "new"), ("/var/lib/belfry", server.data_dir), ("/backup", tmp_path)):
            words, output = (re.sub(rf"{there}(?![\w-])", str(here), text) for text in (words, output))
        done = belfry(*words.split())
        assert (done.code, done.err) == (0, "")
        size = re.compile(r"schema version \d+|[\d.]+ MiB")
        assert size.sub("", done.out.strip()) == size.sub("", output)


# ---- refusals ----


def test_backup_does_not_overwrite_unless_told(belfry, make_server, tmp_path):
    server = make_server()
    path = tmp_path / "copy.db"
    path.write_text("precious")
    done = backup(belfry, server, path)
    assert (done.code, done.out) == (1, "") and "--force" in done.err
    assert path.read_text() == "precious"
    assert backup(belfry, server, path, "--force").code == 0
    assert restore(belfry, path, tmp_path / "new").code == 0
    for own in ("belfry.db", "pepper", "belfry.db-wal"):
        done = backup(belfry, server, server.data_dir / own, "--force")
        assert done.code == 1 and "belongs to the data directory" in done.err
    assert sorted(f.name for f in tmp_path.glob("*.part")) == []


def test_backup_of_no_data_directory_says_so(belfry, tmp_path):
    done = belfry("backup", tmp_path / "copy.db", "--data-dir", tmp_path / "nothing")
    assert done.code == 1 and "there is no store to copy" in done.err
    assert "use pg_dump" in done.err
    assert belfry("backup").code == 2 and belfry("restore").code == 2


@pytest.mark.parametrize("env", [{}, {"BELFRY_STORE": "postgres://belfry:s3cret@db.example/belfry"}])
def test_a_postgresql_store_is_refused_with_the_command_that_copies_it(belfry, tmp_path, env):
    store = () if env else ("--store", "postgres://belfry:s3cret@db.example/belfry")
    for command, instead in (("backup", "pg_dump --format=custom --file=FILE"), ("restore", "pg_restore --no-owner")):
        done = belfry(command, tmp_path / "copy.db", *store, env=env)
        assert (done.code, done.out) == (1, "") and instead in done.err and "s3cret" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_restore_refuses_a_running_server_and_data_that_is_there(belfry, make_server, tmp_path):
    server = make_server()
    ids = create_noops(server.client(), 5)
    path = tmp_path / "copy.db"
    assert backup(belfry, server, path).code == 0
    for force in ((), ("--force",)):
        done = restore(belfry, path, server.data_dir, *force)
        assert done.code == 1 and f"in use by process {server.process.pid}" in done.err
    server.stop()
    done = restore(belfry, path, server.data_dir)
    assert done.code == 1 and "contains data already" in done.err and "--force" in done.err
    server.start()
    assert {task["id"] for task in server.client().all("/v1/tasks")} == set(ids)


@pytest.mark.parametrize("how", ["cut", "scribbled", "other", "empty"])
def test_restore_refuses_a_damaged_file_and_touches_nothing(belfry, make_server, tmp_path, how):
    server = make_server()
    create_noops(server.client(), TASKS)
    path = tmp_path / "copy.db"
    assert backup(belfry, server, path).code == 0
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes({"cut": whole[:middle], "scribbled": whole[:middle] + b"\xa5" * 8192 + whole[middle + 8192:],
                      "other": b"SELECT 1;\n" * 1000, "empty": b""}[how])
    done = restore(belfry, path, tmp_path / "new")
    assert (done.code, done.out) == (1, ""), done
    assert str(path) in done.err and "is not a usable backup, and nothing was changed: " in done.err
    assert "restore a backup" not in done.err
    assert not (tmp_path / "new").exists()


def test_backup_without_secrets_needs_the_pepper_to_log_in(belfry, make_server, tmp_path):
    server = make_server()
    path = tmp_path / "copy.db"
    assert backup(belfry, server, path, "--without-secrets").code == 0
    pepper = (server.data_dir / "pepper").read_bytes()
    assert pepper not in path.read_bytes() and server.key.encode() not in path.read_bytes()
    copy = make_server(start=False)
    done = restore(belfry, path, copy.data_dir)
    assert done.code == 0 and f"{copy.data_dir}/pepper" in done.err
    (copy.data_dir / "pepper").write_bytes(pepper)
    copy.start()
    answer = copy.client().get("/v1/tasks", auth=False, headers={"Authorization": f"Bearer {server.key}"})
    assert answer.status == 200, answer


def test_a_lost_pepper_is_told_and_leaves_an_admin_key(belfry, make_server, tmp_path):
    server = make_server()
    path = tmp_path / "copy.db"
    assert backup(belfry, server, path, "--without-secrets").code == 0
    copy = make_server(start=False)
    done = restore(belfry, path, copy.data_dir)
    assert "the first start makes a new pepper and a new admin key, and all other keys must be created again" in done.err
    copy.start()
    assert f"belfry serve: {copy.data_dir} had no pepper, so a new one was made: no API key that was made before works." in copy.log()
    old = copy.client().get("/v1/tasks", auth=False, headers={"Authorization": f"Bearer {server.key}"})
    assert old.status == 401 and copy.client().get("/v1/tasks").status == 200
    copy.stop()
    (copy.data_dir / "pepper").write_bytes((server.data_dir / "pepper").read_bytes())
    copy.start()
    assert copy.log().count("had no pepper") == 1, "not at the second start"
    old = copy.client().get("/v1/tasks", auth=False, headers={"Authorization": f"Bearer {server.key}"})
    assert old.status == 200, "the old keys are kept"


def test_restored_store_holds_no_secrets_itself(belfry, make_server, tmp_path):
    server = make_server()
    path = tmp_path / "copy.db"
    assert backup(belfry, server, path).code == 0
    assert server.key.encode() in path.read_bytes()
    assert restore(belfry, path, tmp_path / "new").code == 0
    assert server.key.encode() not in (tmp_path / "new" / "belfry.db").read_bytes()
