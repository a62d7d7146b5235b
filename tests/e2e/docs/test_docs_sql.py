"""docs/SQL.md: the views say what the API says, on both stores, its queries run there, and an account for reports sees no secret."""

import datetime
import json
import re
import sqlite3
import threading

import pytest

from conftest import ROOT
from server import Reply, to_ms, until
from test_docs import read

VIEWS = ("belfry_tasks", "belfry_executions", "belfry_queues", "belfry_tenants", "belfry_breakers", "belfry_dependencies", "belfry_workflows")
SECRET = "hunter2"  # in every place that a view must not show


def blocks():
    """[(store or None, superuser, text)] of docs/SQL.md"""
    found = []
    for text in re.findall(r"^```sql\n(.*?)^```", read("docs/SQL.md"), re.M | re.S):
        head = re.match(r"-- (PostgreSQL|SQLite)(, superuser)?\n", text)
        found.append((head and head[1], bool(head and head[2]), text))
    return found


def names_of(source, pattern):
    return re.findall(pattern, read(source))


def enums():
    """{column of a table: the names of its numbers, from 0 on} as the code has them"""
    body = read("src/api/task/body.c")

    def table(name):
        text = re.search(rf"const {name}\[\] = \{{(.*?)\}};", body, re.S)[1]
        return re.findall(r'\] = "(\w+)"', text)

    targets = re.search(r"const target_kind_names\[\] = \{(.*?)\};", read("src/core/task/task.c"), re.S)[1]
    states = re.search(r"define TASK_STATE_MAP\(X\)(.*?)\nenum", read("src/core/task/task.h"), re.S)[1]
    return {"t.kind": table("kind_names"), "t.state": re.findall(r"X\((\w+)\)", states), "t.delivery": table("delivery_names"),
            "t.target": re.findall(r'\] = "(\w+)"', targets), "x.late_by": names_of("src/core/task/late.h", r'X\((\w+), "'),
            "'$.catch_up'": table("catch_up_names"), "'$.overlap'": table("overlap_names"),
            "x.status": names_of("src/core/task/execution_json.c", r'\[EXECUTION_\w+\] = "(\w+)"')}


@pytest.mark.parametrize("folder", ["sqlite", "postgres"])
def test_the_names_in_the_views_are_those_of_the_code(folder):
    paths = sorted((ROOT / "migrations" / folder).glob("*.up.sql"))
    text = "\n".join(path.read_text() for path in paths if re.search(r"CREATE (OR REPLACE )?VIEW", path.read_text()))
    cases = re.findall(r"CASE ((?:(?!WHEN|CASE).|CASE WHEN (?:(?!END).)* END)*?)\s+((?:WHEN \d+ THEN '\w+'\s*)+)END", text)
    assert len(cases) >= 8
    for column, names in enums().items():
        word = column.strip("'").replace("$.", "")
        found = [text for of, text in cases if word in of]
        assert found, (column, cases)
        numbered = {int(n): name for n, name in re.findall(r"WHEN (\d+) THEN '(\w+)'", found[-1])}  # a view may have been made again since
        assert numbered == {n: name for n, name in enumerate(names) if name != "NONE"}, column


@pytest.mark.parametrize("folder", ["sqlite", "postgres"])
def test_the_reasons_in_the_views_are_those_of_the_code(folder):
    rows = re.search(r"define SKIP_REASON_MAP\(X\)(.*?)\nenum", read("src/core/task/spawn.h"), re.S)[1]
    reasons = [(text, name) for name, text in re.findall(r'X\((\w+), "(.*?)"\)', rows) if text]
    path = next((ROOT / "migrations" / folder).glob("*_views.up.sql"))
    assert re.findall(r"WHEN t.last_error LIKE '%(.*?)' THEN '(\w+)'", path.read_text()) == reasons and len(reasons) == 9


class SQLite:
    name = "SQLite"

    def __init__(self, server):
        self.path = server.data_dir / "belfry.db"

    def rows(self, sql):
        db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        db.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in db.execute(sql)]
        finally:
            db.close()


class PostgreSQL:
    name = "PostgreSQL"

    def __init__(self, postgres, database):
        self.postgres, self.database = postgres, database

    def rows(self, sql):
        lines = self.postgres.sql(f"SELECT row_to_json(x) FROM ({sql.strip().rstrip(';')}) AS x", self.database)
        return [json.loads(line) for line in lines]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request):
    return request.param


@pytest.fixture
def filled(store, request, receiver, build, tmp_path):
    """(client, its store by SQL) with tasks of every kind and state."""
    from server import Server

    if store == "sqlite":
        server = Server(tmp_path / "data")
        sql = SQLite(server)
    else:
        postgres, database = request.getfixturevalue("postgres"), request.getfixturevalue("database")
        server = Server(tmp_path / "data", "--store", postgres.url(database))
        sql = PostgreSQL(postgres, database)
    server.start()
    client = server.client()
    fill(client, receiver)
    yield client, sql
    client.close()
    server.close()


def fill(client, receiver):
    """One task of every state but EXPIRED ones of the future, each with a secret wherever one may be."""
    secret = {"payload": {"password": SECRET}, "metadata": {"note": SECRET}}
    receiver.answer("/fails", Reply(404, body=SECRET.encode()))
    receiver.answer("/retries", Reply(503, headers={"Retry-After": "0"}), Reply())
    receiver.answer("/runs", Reply(hold=threading.Event()))
    headers = {"headers": {"Authorization": f"Bearer {SECRET}"}}
    client.create(name="waits", delay="1h", queue="slow", priority=9, task_type="report.daily", timeout_ms=5000, delivery="AT_MOST_ONCE",
                  expires_after_seconds=600, dedupe_key="d-1", retry={"max_attempts": 3}, **receiver.target("/w", **headers), **secret)
    client.create(name="far", run_at="2200-01-01T00:00:00.001Z", target_type="WORKER", queue="lent", **secret)
    for name in ("nightly", "paused"):
        client.create(name=name, cron_expression="30 2 * * MON-FRI", time_zone="Europe/Berlin", end_date="2199-01-01T00:00:00Z", max_runs=7,
                      catch_up_mode="SKIP_MISSED", overlap_policy="QUEUE_ONE", target_type="NOOP", **secret)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    excluded = [str(today + datetime.timedelta(days=n)) for n in range(2)]
    assert client.request("PUT", "/v1/calendars/off", {"excluded": excluded}).status in (200, 201)
    off = client.create(name="off", interval_seconds=1, calendar="off", target_type="NOOP")
    often = client.create(name="often", interval_seconds=1, target_type="NOOP")
    for name in ("paused", "cancelled"):
        task = client.create(name=name, delay="1h", target_type="NOOP")
        client.act(task["id"], "pause" if name == "paused" else "cancel")
    client.act(client.get("/v1/tasks?name=paused&type=RECURRING").json["tasks"][0]["id"], "pause")
    client.create(name="expired", run_at="2020-01-01T00:00:00Z", expires_after_seconds=1, target_type="NOOP")
    deleted = client.create(name="deleted", delay="1h", target_type="NOOP")
    assert client.request("DELETE", f"/v1/tasks/{deleted['id']}").status == 204
    failed = client.create(name="failed", **receiver.target("/fails", **headers), **secret)
    retried = client.create(name="retried", retry={"base_delay_ms": 1, "jitter": "NONE"}, **receiver.target("/retries"))
    first = client.create(name="runs", concurrency_key="one", **receiver.target("/runs"))
    receiver.wait("/runs")
    blocked = client.create(name="blocked", concurrency_key="one", concurrency_limit=1, **receiver.target("/runs"))
    assert client.request("PUT", "/v1/queues/slow", {"max_dispatches_per_second": 2.5, "max_concurrent": 3, "weight": 7}).status == 200
    assert client.request("PATCH", "/v1/queues/held", {"paused": True, "reason": "maintenance", "until": "2199-01-01T00:00:00Z"}).status == 200
    assert client.post("/v1/tenants", {"name": "acme", "max_pending": 5}).status == 201
    client.create(name="held", queue="held", target_type="NOOP")
    for task, state in ((failed, "FAILED"), (retried, "COMPLETED"), (first, "RUNNING"), (blocked, "BLOCKED")):
        client.wait_for(task["id"], state)
    until(lambda: client.get(f"/v1/tasks/{often['id']}/executions").json["executions"])
    client.act(often["id"], "cancel")
    until(lambda: client.get(f"/v1/tasks/{off['id']}/occurrences").json["tasks"])
    client.act(off["id"], "pause")  # a cancel would cut its row at now
    until(lambda: client.get("/v1/tasks?name=expired").json["tasks"][0]["status"] == "EXPIRED")


def ms(value):
    """Milliseconds of a time of either store, or of the API."""
    if value is None:
        return None
    return to_ms(re.sub(r"\.(\d{1,3})(?!\d)", lambda m: "." + m[1].ljust(3, "0"), value))


TIMES = ("run_at", "start_time", "end_date", "last_run_at", "resolved_at", "expires_at", "created_at", "updated_at", "started_at", "completed_at")
SAME = ("id", "type", "parent_id", "name", "task_type", "status", "queue", "priority", "attempts", "delivery", "target_type", "timeout_ms",
        "concurrency_key", "concurrency_limit", "dedupe_key", "cron_expression", "interval_seconds", "time_zone", "calendar", "max_runs",
        "catch_up_mode", "overlap_policy", "runs_count", "skipped_count", "last_error", "cause", "version")


def of_api(task):
    row = {name: task.get(name) for name in SAME} | {name: ms(task.get(name)) for name in TIMES}
    recurs = task["type"] == "RECURRING"
    skipped = task.get("skipped") or {}
    row |= {"skipped_reason": skipped.get("reason"), "skipped_times": skipped.get("count"), "skipped_from": ms(skipped.get("from")),
            "skipped_to": ms(skipped.get("to"))}
    row |= {"tenant": "default", "run_id": task.get("run"), "max_attempts": task["retry"]["max_attempts"],
            "due_at": None if recurs else ms(task["next_execution"]), "next_occurrence_at": ms(task["next_execution"]) if recurs else None}
    return row


def of_view(row):
    times = (*TIMES, "due_at", "next_occurrence_at", "skipped_from", "skipped_to")
    return {name: ms(value) if name in times else value for name, value in row.items()}


def all_tasks(client):
    """With the occurrences of recurring tasks, which lists leave out."""
    found = client.all("/v1/tasks")
    return found + [o for t in found if t["type"] == "RECURRING" for o in client.all(f"/v1/tasks/{t['id']}/occurrences")]


def check_tasks(client, sql):
    """Both are read one after the other: a run that ends in between, or an occurrence that gets its row, makes them differ for a moment."""
    differ = {}

    def same():
        tasks = {task["id"]: of_api(task) for task in all_tasks(client)}
        shown = {row["id"]: of_view(row) for row in sql.rows("SELECT * FROM belfry_tasks")}
        differ.clear()
        differ.update({key: (shown.get(key), tasks.get(key)) for key in shown.keys() | tasks.keys() if shown.get(key) != tasks.get(key)})
        return not differ and tasks

    tasks = until(same, 20, why=lambda: f"these differ: {differ}")
    assert {row["status"] for row in tasks.values()} >= {"SCHEDULED", "BLOCKED", "PAUSED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"}
    assert any(row["skipped_reason"] == "CALENDAR" and row["skipped_times"] > 1 for row in tasks.values())
    assert {row["type"] for row in tasks.values()} == {"ONE_TIME", "RECURRING", "OCCURRENCE"}


def executions_of(client):
    found = {}
    for task in client.all("/v1/tasks"):
        for x in client.all(f"/v1/tasks/{task['id']}/executions", "executions"):
            if x["id"]:
                found[x["id"]] = {**x, "task_name": task["name"], "queue": task["queue"]}
    return found


def check_executions(client, sql):
    found = executions_of(client)
    shown = {row["id"]: row for row in sql.rows("SELECT * FROM belfry_executions")}
    assert set(shown) == set(found) and {row["status"] for row in shown.values()} == {"COMPLETED", "FAILED"}
    assert any(row["attempt_number"] == 2 for row in shown.values()) and any(row["occurrence_id"] for row in shown.values())
    for key, x in found.items():
        row = shown[key]
        for name in ("task_id", "occurrence_id", "task_name", "queue", "attempt_number", "status", "worker", "http_status", "error_message",
                     "trace_id", "fence"):
            assert row[name] == x[name], name
        for name in ("scheduled_for", "started_at", "completed_at"):
            assert ms(row[name]) == ms(x[name]), name
        assert row["delay_ms"] == pytest.approx(x["delay_ms"]) and row["delay_cause"] == x["delay_cause"] and row["tenant"] == "default"
        assert row["duration_ms"] == pytest.approx(ms(x["completed_at"]) - ms(x["started_at"]), abs=1.1)


def check_queues_and_tenants(client, sql):
    shown = {row["name"]: row for row in sql.rows("SELECT * FROM belfry_queues")}
    for queue in client.all("/v1/queues", "queues"):
        row, pause = shown[queue["name"]], queue["paused"] or {}
        for name in ("max_dispatches_per_second", "max_burst", "max_concurrent", "weight", "due"):
            assert row[name] == queue[name], name
        assert bool(row["paused"]) == bool(pause) and row["paused_reason"] == pause.get("reason") and row["paused_by"] == pause.get("by")
        assert ms(row["paused_until"]) == ms(pause.get("until")) and ms(row["paused_since"]) == ms(pause.get("since"))
    assert shown["held"]["paused"] and shown["held"]["due"] == 1 and "lent" in shown
    tenants = {row["name"]: row for row in sql.rows("SELECT * FROM belfry_tenants")}
    assert {t["name"]: t["max_pending"] for t in client.all("/v1/tenants", "tenants")} == {name: row["max_pending"] for name, row in tenants.items()}
    assert sql.rows("SELECT * FROM belfry_breakers") == []


def check_runs(client, sql):
    """A run that waits for a signal: its row, its steps, and its secrets."""
    call = {"target_config": {"url": "https://example.com/", "body": SECRET}}
    definition = {"steps": [{"name": "w", "await": {"signal": "go"}}, {"name": "b", "depends_on": ["w"], **call}]}
    made = client.post("/v1/workflows", {"definition": definition, "input": SECRET, "deadline_seconds": 3600, "queue": "runs"}).json
    until(lambda: client.get(f"/v1/workflows/{made['id']}/status").json["awaiting"])
    run = client.get(f"/v1/workflows/{made['id']}").json
    [row] = sql.rows("SELECT * FROM belfry_workflows")
    assert (row["id"], row["root_id"], row["depth"], row["tenant"]) == (run["id"], run["id"], 0, "default")
    assert row["definition_hash"] == run["definition_hash"] and row["workflow"] is None and row["version"] is None
    assert ms(row["opened_at"]) == ms(run["started_at"]) and ms(row["deadline_at"]) == ms(run["deadline_at"])
    assert not row["paused"] and row["stopped"] is None and row["retries"] == 0
    tasks = {x["id"]: x for x in sql.rows("SELECT * FROM belfry_tasks") if run["id"] in (x["id"], x["run_id"])}
    assert tasks[run["id"]]["status"] == "RUNNING" and {x["queue"] for x in tasks.values()} == {"runs"}
    for step in client.get(f"/v1/workflows/{run['id']}/steps").json["steps"]:
        assert tasks[step["id"]]["status"] == step["status"] == "BLOCKED"


def check_secrets_and_queries(sql):
    for view in VIEWS:
        assert SECRET not in json.dumps(sql.rows(f"SELECT * FROM {view}"))
    ran = 0
    for only, superuser, text in blocks():
        if superuser or only not in (None, sql.name):
            continue
        rows = sql.rows(text)
        assert rows or "delay_ms > 1000" in text, text
        ran += 1
    assert ran == 10
    documented = read("docs/SQL.md").split("## Columns")[1]
    for view in VIEWS:
        part = re.search(rf"^### {view}\n(.*?)(?=^### |\Z)", documented, re.M | re.S)[1]
        told = set(re.findall(r"`([a-z_]+)`", part))
        columns = sql.rows(f"SELECT * FROM {view}")
        assert not columns or set(columns[0]) <= told, f"docs/SQL.md does not describe {set(columns[0]) - told} of {view}"


def test_the_views_say_what_the_api_says_and_no_secret(filled):
    client, sql = filled
    check_tasks(client, sql)
    check_executions(client, sql)
    check_queues_and_tenants(client, sql)
    check_runs(client, sql)
    check_secrets_and_queries(sql)


def test_an_account_for_reports_sees_the_views_alone(database, postgres, build, tmp_path):
    from conftest import run

    url = postgres.url(database)
    assert run("migrate", "up", "--store", url).code == 0
    for only, superuser, text in blocks():
        if superuser:
            postgres.sql(text, database)
    try:
        for view in (*VIEWS, "reports.acme_tasks"):
            postgres.sql(f"SET ROLE belfry_reports; SELECT count(*) FROM {view}", database)
        for table in ("tasks", "executions", "api_keys", "cluster", "catalog", "idempotency"):
            with pytest.raises(AssertionError, match="permission denied"):
                postgres.sql(f"SET ROLE belfry_reports; SELECT count(*) FROM {table}", database)
        done = run("migrate", "down", "--to", "1", "--yes", "--store", url)
        assert done.code == 1 and "cannot drop view belfry_tasks because other objects depend on it" in done.err, done
    finally:
        postgres.sql("DROP SCHEMA reports CASCADE; DROP OWNED BY belfry_reports; DROP ROLE belfry_reports", database)
