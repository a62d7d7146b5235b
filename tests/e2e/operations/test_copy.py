"""belfry copy: from a data directory into a PostgreSQL database, whole, and again after it was broken off."""

import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import threading

import pytest

from cluster import Cluster
from conftest import BUILD
from server import Reply, Server, until

TABLES = ["claims", "tasks", "executions", "idempotency", "api_keys", "catalog", "dedupe", "slots", "edges", "joins", "arrivals", "task_leases",
          "runs", "definitions", "workflows", "outputs", "signals", "audit", "stats", "hits", "incident_records"]


pytestmark = pytest.mark.standalone("what is copied is the embedded store")


class Database:
    """One of its own on the server of these tests."""

    def __init__(self, server):
        self.server, self.name = server, server.new_database()
        self.url = server.url(self.name)

    def sql(self, text):
        return self.server.sql(text, self.name)


@pytest.fixture
def database(postgres_server):
    database = Database(postgres_server)
    yield database
    postgres_server.drop_database(database.name)


def copy(belfry, directory, url, *more, **env):
    return belfry("copy", "--from", f"sqlite:{directory}", "--to", url, *more, **env)


def rows_of(done):
    assert done.code == 0, done.err
    return {line["table"]: line for line in map(json.loads, done.lines)}


def fill(server, receiver):
    """Something in every table: what waits, what ran, what failed, what runs and holds a slot, what users set up. Then it is killed."""
    client = server.client()
    batch = [{"target_type": "NOOP", "delay": "1h", "name": f"waits-{i}", "payload": {"text": "\u00fc" * i}} for i in range(1200)]
    for i in range(0, len(batch), 100):
        assert client.post("/v1/tasks/batch", batch[i:i + 100]).status == 201
    ran = [client.create(target_type="NOOP", name=f"ran-{i}") for i in range(50)]
    receiver.answer("/fails", Reply(404))
    failed = client.create(name="failed", retry={"max_attempts": 1}, **receiver.target("/fails"))
    client.create(cron_expression="0 3 * * *", target_type="NOOP", name="nightly")
    client.create(target_type="NOOP", delay="1h", dedupe_key="once", dedupe_window_seconds=3600)
    assert client.request("PUT", "/v1/queues/slow", {"weight": 3}).status == 200
    assert client.post("/v1/tasks", {"target_type": "NOOP", "delay": "1h"}, key="k1").status == 201
    receiver.answer("/runs", Reply(hold=threading.Event()))
    for name in ("runs", "blocked"):
        client.create(name=name, concurrency_key="one", **receiver.target("/runs"))
    parents = [client.create(delay="1h", target_type="NOOP")["id"] for _ in range(2)]
    client.create(name="child", target_type="NOOP", depends_on=parents, join="SOME")
    for task in ran:
        until(lambda task=task: state(client, task) == "COMPLETED")
    until(lambda: state(client, failed) == "FAILED")
    until(lambda: client.get("/v1/tasks?status=BLOCKED").json["tasks"])
    client.close()
    server.kill()


def state(client, task):
    return client.get(f"/v1/tasks/{task['id']}").json["status"]


def test_a_copy_holds_everything_and_says_so(belfry, make_server, receiver, database):
    server = make_server()
    fill(server, receiver)
    rows = rows_of(copy(belfry, server.data_dir, database.url, "--json"))
    assert list(rows) == TABLES
    for table in TABLES:
        assert rows[table]["rows"] == rows[table]["copied"] == int(database.sql(f"SELECT count(*) FROM {table}")[0])
    assert rows["tasks"]["rows"] >= 1254 and rows["executions"]["rows"] >= 51
    assert rows["idempotency"]["rows"] >= 1 and rows["catalog"]["rows"] >= 1 and rows["dedupe"]["rows"] == 1
    assert rows["claims"]["rows"] == 1 and rows["slots"]["rows"] == 1
    assert rows["edges"]["rows"] == 2 and rows["joins"]["rows"] == 1
    assert database.sql("SELECT count(*) FROM belfry_dependencies AS d JOIN belfry_tasks AS t ON t.id = d.task_id "
                        "WHERE t.name = 'child' AND t.status = 'BLOCKED' AND d.state = 'WAITING' AND d.join = 'SOME'") == ["2"]
    counted = database.sql("SELECT state, sum(n) FROM counts GROUP BY state ORDER BY state")
    assert counted == database.sql("SELECT state, count(*) FROM tasks WHERE NOT deleted GROUP BY state ORDER BY state")
    ended = "SELECT count(*) FROM ended CROSS JOIN unnest(tasks) AS t(id) JOIN tasks AS x ON x.id = t.id AND x.completed_ms = ended.completed_ms"
    assert database.sql(ended) == database.sql(
        "SELECT count(*) FROM tasks WHERE state > 3 AND state <> 5 AND completed_ms > 0")
    assert database.sql("SELECT held, cardinality(tasks) FROM claims JOIN tasks AS t ON t.id = claims.tasks[1] AND t.claim_id = claims.id "
                        "AND t.state = 3") == ["1|1"], "who finds it releases what was running"
    assert database.sql("SELECT encode(value, 'hex') FROM cluster WHERE name = 'pepper'") == [
        (server.data_dir / "pepper").read_bytes().hex()]
    assert database.sql("SELECT 1 FROM cluster WHERE name = 'copying'") == []
    mark = json.loads((server.data_dir / "copied-to").read_text())
    assert mark["copied_to"].startswith("postgres://") and database.name in mark["copied_to"] and mark["copied_at"]
    assert "belfry:*" in mark["copied_to"] and re.search(r"://belfry:([^@]+)@", database.url)[1] not in mark["copied_to"]


LANES = "{id}, l.queue, l.priority, l.requires, l.cpu_milli, l.memory_mb, l.host, l.pool, coalesce(t.aside, ''), {recalled}"
LANES_OF_TASKS = f"SELECT {LANES} FROM tasks AS t JOIN lanes AS l ON l.lane = t.lane WHERE t.state <= 3 ORDER BY t.id"


def move(db, name, task, lane):
    """As no request on one node does it: the task has these columns, and waits in the lane that differs so from its first one."""
    columns = [row[1] for row in db.execute("PRAGMA table_info(lanes)")]
    values = ["(SELECT max(lane) + 1 FROM lanes)" if c == "lane" else f":{c}" if c in lane else c for c in columns]
    db.execute(f"INSERT INTO lanes ({', '.join(columns)}) SELECT {', '.join(values)} FROM lanes "
               "WHERE lane = (SELECT lane FROM tasks WHERE name = :task)", {**lane, "task": name})
    new = ", ".join(f"{c} = :{c}" for c in task)
    assert db.execute(f"UPDATE tasks SET lane = (SELECT max(lane) FROM lanes), {new} WHERE name = :task", {**task, "task": name}).rowcount == 1


def test_tasks_wait_in_the_lanes_they_were_in(belfry, make_server, database):
    server = make_server()
    client = server.client()
    for name in ("plain", "aside", "recalled", "both", "needs"):
        client.create(target_type="NOOP", delay="1h", name=name)
    client.create(target_type="NOOP", delay="1h", priority=9, delivery="AT_MOST_ONCE", name="once")
    client.create(target_type="NOOP", delay="1h", queue="slow", concurrency_key="db", name="keyed")
    client.create(target_type="WORKER", delay="1h", delivery="AT_MOST_ONCE", name="leased")
    client.close()
    server.stop()
    db = sqlite3.connect(server.data_dir / "belfry.db")
    move(db, "aside", {"aside": "api.example"}, {"host": "api.example"})
    move(db, "recalled", {"recalled": 1}, {"pool": 5})
    move(db, "both", {"aside": "api.example", "recalled": 1}, {"host": "api.example", "pool": 5})
    move(db, "needs", {"needs": '{"requires":"eu,gpu","cpu_milli":500,"memory_mb":64}'}, {"requires": "eu,gpu", "cpu_milli": 500, "memory_mb": 64})
    db.commit()
    here = ["|".join(map(str, row)) for row in db.execute(LANES_OF_TASKS.format(id="lower(hex(t.id))", recalled="t.recalled"))]
    pools = dict(db.execute("SELECT name, pool FROM tasks JOIN lanes USING (lane)"))
    db.close()
    assert pools == {"plain": 0, "aside": 0, "recalled": 5, "both": 5, "once": 5, "keyed": 5, "needs": 0, "leased": 1}
    rows = rows_of(copy(belfry, server.data_dir, database.url, "--json"))
    assert rows["tasks"]["copied"] == len(here) == 8
    assert database.sql(LANES_OF_TASKS.format(id="replace(t.id::text, '-', '')", recalled="t.recalled::int")) == here
    assert rows_of(copy(belfry, server.data_dir, database.url, "--json"))["tasks"]["copied"] == 0


def test_a_cluster_goes_on_where_the_server_ended(belfry, make_server, receiver, database, tmp_path):
    """With the keys that clients hold; what was running is lost and tried again, what waited fires once."""
    server = make_server()
    client = server.client()
    receiver.answer("/runs", Reply(hold=threading.Event()), Reply())
    runs = client.create(name="runs", **receiver.target("/runs"))
    waits = client.create(name="waits", delay="6s", **receiver.target("/waits"))
    late = [client.create(delay="6s", **how, **receiver.target("/late")) for how in ({"delivery": "AT_MOST_ONCE"}, {"concurrency_key": "db"})]
    receiver.wait("/runs")
    server.kill()
    rows_of(copy(belfry, server.data_dir, database.url, "--json"))
    (tmp_path / "cluster" / "node0").mkdir(parents=True)
    (tmp_path / "cluster" / "node0" / "admin.key").write_text(server.key)
    cluster = Cluster(tmp_path / "cluster", database.url)
    try:
        client = cluster.start().client()
        assert client.wait_for(runs["id"], "COMPLETED") and client.wait_for(waits["id"], "COMPLETED")
        assert all(client.wait_for(task["id"], "COMPLETED") for task in late)
        history = client.get(f"/v1/tasks/{runs['id']}/executions").json["executions"]
        assert [x["status"] for x in history] == ["COMPLETED", "LOST"]
        assert len(receiver.wait("/runs", 2)) == 2 and len(receiver.wait("/waits")) == 1 and len(receiver.wait("/late", 2)) == 2
        assert "the first start" not in cluster.log(), "it has a key already"
        client.close()
        refused = copy(belfry, server.data_dir, database.url)
        assert refused.code == 1 and "a server runs on the database" in refused.err
    finally:
        cluster.close()


def test_no_server_starts_on_half_a_copy(postgres_server, database, tmp_path):
    first = Server(tmp_path / "first", "--store", database.url)
    first.start()
    first.stop()
    database.sql("INSERT INTO cluster VALUES ('copying', 'x')")
    server = Server(tmp_path / "second", "--store", database.url)
    server.launch()
    assert server.ended() == 1 and "a copy to this database is not done" in server.log()


def test_a_copy_that_was_killed_is_finished_by_the_next(belfry, make_server, receiver, database):
    server = make_server()
    fill(server, receiver)
    url = database.url
    command = [BUILD / "belfry", "copy", "--from", f"sqlite:{server.data_dir}", "--to", url]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    some = "SELECT 1 FROM pg_class WHERE relname = 'tasks' AND pg_relation_size(oid) > 0"
    while process.poll() is None and not database.sql(some):
        pass
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it was over too soon: nothing was broken off"
    ours = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while database.sql(ours):  # the database ends what it was told before the kill
        pass
    before = int(database.sql("SELECT count(*) FROM tasks")[0])
    assert database.sql("SELECT 1 FROM cluster WHERE name = 'copying'") == ["1"], "a server must not start on it"
    rows = rows_of(copy(belfry, server.data_dir, url, "--json"))
    assert rows["tasks"]["copied"] == rows["tasks"]["rows"] - before
    again = rows_of(copy(belfry, server.data_dir, url, "--json"))
    assert all(again[t]["copied"] == 0 and again[t]["rows"] == rows[t]["rows"] for t in TABLES)
    assert [again[t]["checksum"] for t in TABLES] == [rows[t]["checksum"] for t in TABLES]
    assert database.sql("SELECT sum(n) FROM counts") == [str(rows["tasks"]["rows"])]


def test_a_database_that_holds_something_else_is_refused_untouched(belfry, make_server, receiver, database):
    one, other = make_server(), make_server()
    for server in (one, other):
        server.client().create(target_type="NOOP", delay="1h")
        server.stop()
    url = database.url
    rows_of(copy(belfry, one.data_dir, url, "--json"))
    before = database.sql("SELECT id FROM tasks ORDER BY id")
    refused = copy(belfry, other.data_dir, url)
    assert refused.code == 1 and "that the source does not have" in refused.err
    assert database.sql("SELECT id FROM tasks ORDER BY id") == before
    database.sql("UPDATE tasks SET version = version + 1")
    refused = copy(belfry, one.data_dir, url)
    assert refused.code == 1 and "'tasks'" in refused.err, "a task that has changed since is another"
    assert database.sql("SELECT 1 FROM cluster WHERE name = 'copying'") == []


def test_a_row_that_changes_on_the_way_is_found(belfry, make_server, database):
    """What is read back is compared, not only counted."""
    server = make_server()
    server.client().create(target_type="NOOP", delay="1h", name="as it was")
    server.stop()
    url = database.url
    rows_of(copy(belfry, server.data_dir, url, "--json"))
    database.sql("TRUNCATE tasks, counts")
    database.sql("CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name := 'spoilt'; RETURN NEW; END $$")
    database.sql("CREATE TRIGGER spoil BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION spoil()")
    spoilt = copy(belfry, server.data_dir, url)
    assert spoilt.code == 1 and "'tasks'" in spoilt.err and "differs from the source after the copy" in spoilt.err
    assert database.sql("SELECT 1 FROM cluster WHERE name = 'copying'") == ["1"]


def test_a_running_source_is_refused(belfry, server, database):
    refused = copy(belfry, server.data_dir, database.url)
    assert refused.code == 1 and "is in use by process" in refused.err


@pytest.mark.parametrize("words, says", [
    ([], "--from"),
    (["--from", "/var/lib/belfry", "--to", "postgres://x/y"], "sqlite:DIR"),
    (["--from", "sqlite:/nowhere", "--to", "mysql://x/y"], "postgres://"),
    (["--from", "sqlite:/nowhere"], "--to"),
])
def test_what_was_not_understood_is_said(belfry, words, says):
    done = belfry("copy", *words)
    assert done.code == 2 and says in done.err


def test_a_directory_without_data_is_not_made(belfry, database, tmp_path):
    done = copy(belfry, tmp_path / "none", database.url)
    assert done.code == 1 and "no Belfry data" in done.err
    assert not (tmp_path / "none").exists()


def test_the_fingerprints_of_a_directory_that_an_earlier_version_left_come_from_its_file(server, receiver, belfry, database):
    server.client().create(delay="1d", **receiver.target("/x", headers={"Cookie": "a"}))
    server.stop()
    with contextlib.closing(sqlite3.connect(server.data_dir / "belfry.db")) as file, file:
        assert file.execute("DELETE FROM cluster WHERE name LIKE 'key%'").rowcount == 2
    done = copy(belfry, server.data_dir, database.url)
    assert done.code == 0 and "secrets.key" in done.err, done
    key = (server.data_dir / "secrets.key").read_text().splitlines()[-1].split()[0]
    assert f"key:{key}" in str(database.sql("SELECT name FROM cluster WHERE name LIKE 'key:%'"))
    assert database.sql("SELECT 1 FROM cluster WHERE name = 'key_print'")
