"""What the commands tell of tasks, dead letters, jobs and workers, against a server that follows a script: all of it, and as it is."""

import json
import os
import pty
import re
import subprocess

import pytest

from conftest import ROOT, read_terminal
from test_cli_client import ID, KEY, OTHER, ask, instant, page, shown, stub, task  # pylint: disable=unused-import

REASON = "the call was refused: " + "because of this and that, " * 20 + "which is why"


# ---- tables ----


@pytest.mark.parametrize("columns", [80, 100, None])
def test_the_column_with_the_reason_is_never_cut(ask, stub, columns):
    occurrence = {"id": OTHER, "scheduled_for": "2026-02-10T08:00:00.000Z", "status": "SKIPPED", "reason": REASON, "attempts": 0}
    execution = {"attempt_number": 1, "status": "FAILED", "started_at": "2026-02-10T08:00:00.000Z", "error_message": REASON}
    failed = task(status="FAILED", last_error=REASON, cause="c" * 16, completed_at="2026-02-10T08:00:00.000Z", name="n" * 100)
    stub.on("GET", f"/v1/tasks/{ID}/occurrences", page([occurrence]))
    stub.on("GET", f"/v1/tasks/{ID}/executions", page([execution], member="executions"))
    stub.on("GET", f"/v1/tasks/{ID}/upcoming", {"upcoming": [{"at": "2026-02-10T08:00:00.000Z", "note": REASON}]})
    stub.on("GET", f"/v1/tasks/{ID}", task())
    stub.on("GET", "/v1/dlq", page([failed]))
    stub.on("GET", "/v1/breakers", page([{"id": ID, "host": "h" * 100, "state": "OPEN", "reason": REASON}], member="breakers"))
    for args in (["history", "--occurrences", ID], ["history", ID], ["upcoming", ID], ["dlq"], ["breakers", "list"]):
        out = ask(*args, tty=columns is not None, columns=columns or 80).out
        assert REASON in out, args
        assert columns or "…" not in out, "nothing is cut for a pipe"


def test_ids_stay_whole_on_a_narrow_terminal(ask, stub):
    stub.on("GET", "/v1/tasks", page([task(name="n" * 100, target_config={"url": "https://example.com/" + "x" * 100})]))
    lines = ask("list", tty=True, columns=80).lines
    assert lines[1].startswith(f"{ID}  nnnnnnn…  ") and lines[1].endswith("…")


# ---- show ----


def test_show_prints_every_field_of_a_task(ask, stub):
    """Also those that it does not know: they are printed under the name that the server gives them."""
    fields = json.loads((ROOT / "src/api/server/openapi.json").read_text())["components"]["schemas"]["Task"]["properties"]
    samples = {"integer": 7, "number": 7, "string": "some text", "object": {"kind": "overlap", "how": "archived", "by": "ops", "worker": "w"}, "array": ["a"],
               "boolean": True}

    def lines(**more):
        stub.rules.clear()
        stub.on("GET", f"/v1/tasks/{ID}", {"id": ID, **more})
        return ask("show", ID).lines

    bare = lines()
    for name, schema in {**fields, "brand_new": {"type": "object"}}.items():
        inner = next((s for s in schema.get("anyOf", []) if s.get("type") != "null"), schema)
        kind = inner.get("type", "object")
        kind = next(k for k in kind if k != "null") if isinstance(kind, list) else kind
        value = "2026-02-10T08:00:00.000Z" if inner.get("format") == "date-time" else samples[kind]
        if name not in ("id", "interval_seconds"):
            assert lines(**{name: value}) != bare, name
    assert "brand_new  " + json.dumps({"a": [1]}) in [re.sub(" {2,}", "  ", line) for line in lines(brand_new={"a": [1]})]
    assert lines(interval_seconds=7) != bare


def test_show_cuts_no_value_and_leaves_out_no_zero(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}", task(payload="p" * 10000, priority=0, retry={"max_attempts": 3, "jitter": "NONE"}, spread_seconds=0,
                                           resolution={"how": "archived", "by": "admin", "reason": "order was cancelled"}))
    told = dict(re.split(r"  +", line, maxsplit=1) for line in ask("show", ID).lines)
    assert told["Payload"] == '"' + "p" * 10000 + '"' and told["Priority"] == "0" and told["Spread"] == "0s"
    assert told["Retry"] == '{"max_attempts": 3, "jitter": "NONE"}' and told["because"] == "order was cancelled"


# ---- what an action made of a task ----


@pytest.mark.parametrize("command, after, lines", [
    ("pause", {"status": "PAUSED", "cron_expression": "0 8 * * *"}, ["paused"]),
    ("pause", {"status": "COMPLETED"}, ["is COMPLETED"]),
    ("cancel", {"status": "CANCELLED", "cron_expression": "0 8 * * *"}, ["cancelled"]),
    ("cancel", {"status": "RUNNING"}, ["is RUNNING"]),
    ("resume", {"status": "COMPLETED"}, ["resumed", "It is COMPLETED and does not fire again"]),
    ("resume", {"status": "BLOCKED", "next_execution": "2026-02-10T08:00:00.000Z", "waiting_for": {"kind": "overlap"}},
     ["resumed", "It waits for its previous run"]),
    ("retry", {"status": "RUNNING"}, ["set to try again", "It is running"]),
    ("run", {"occurrence_id": OTHER, "next_execution": "2026-02-10T08:00:00.000Z", "cron_expression": "0 8 * * *"},
     ["set to run now", f"The additional run is {OTHER}"]),
])
def test_an_action_says_what_has_become_of_the_task(ask, stub, command, after, lines):
    stub.on("POST", ".*", task(**after))
    done = ask(command, ID)
    assert (done.code, done.lines) == (0, [f"{ID} {lines[0]}", *lines[1:]])


def test_run_of_a_paused_schedule_does_not_tell_the_end_of_its_pause_as_that_of_the_run(ask, stub):
    stub.on("POST", f"/v1/tasks/{ID}/run-now", task(status="PAUSED", occurrence_id=OTHER, paused={"until": "2026-03-01T00:00:00.000Z"}))
    assert ask("run", ID).out == f"{ID} set to run now\nThe additional run is {OTHER}\n"


def test_a_task_of_a_paused_queue_is_not_said_to_fire(ask, stub):
    at = instant(hours=10)
    stub.on("POST", ".*", task(next_execution=at, queue="mail"))
    stub.on("GET", "/v1/queues/mail", {"name": "mail", "state": "paused"})
    paused = "Its queue is paused, so it waits until 'belfry queue resume mail'"
    assert ask("resume", ID).lines == [f"{ID} resumed", f"Fires in 10h: {shown(at)}", paused]
    assert ask("add", "--noop", "--queue", "mail").lines == [ID, f"Fires in 10h: {shown(at)}", paused]
    at = instant(hours=10)
    stub.on("PATCH", ".*", task(next_execution=at, queue="mail", version=2))
    assert ask("edit", ID, "--queue", "mail").lines == [f"{ID} is now version 2", f"Fires in 10h: {shown(at)}", paused]


@pytest.mark.parametrize("hours, is_told", [(20, True), (5, False)])
def test_the_end_of_the_pause_of_a_queue_is_told_if_it_is_later(ask, stub, hours, is_told):
    at, until = instant(hours=10), instant(hours=hours)
    stub.on("POST", ".*", task(next_execution=at, queue="mail"))
    stub.on("GET", "/v1/queues/mail", {"name": "mail", "state": "paused", "paused": {"until": until}})
    paused = f"Its queue is paused, so it waits until {shown(until)}, or 'belfry queue resume mail'"
    assert ask("add", "--noop", "--queue", "mail").lines[2:] == [paused] * is_told


def test_history_says_in_words_why_an_occurrence_was_moved(ask, stub):
    rows = [{"id": OTHER, "run_at": "2026-02-09T07:00:00.000Z", "status": "COMPLETED", "attempts": 1, "moved": {"from": at, "reason": reason}}
            for at, reason in (("2026-02-07T08:00:00", "CALENDAR"), ("2026-02-09T02:30:00", "DST_GAP"))]
    stub.on("GET", f"/v1/tasks/{ID}/occurrences", page(rows))
    assert [line.split(OTHER)[1].strip() for line in ask("history", "--occurrences", ID).lines[1:]] == [
        "moved from 2026-02-07, which the calendar excludes", "02:30 does not exist that day, the clock is set forward over it"]


def test_edit_of_a_paused_task_says_that_it_does_not_fire(ask, stub):
    stub.on("PATCH", ".*", task(status="PAUSED", version=2))
    assert ask("edit", ID, "--name", "x").lines == [f"{ID} is now version 2", f"It does not fire until 'belfry resume {ID}'"]


# ---- upcoming ----


def test_upcoming_of_a_task_names_it(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}", task(name="report"), task(name=None))
    stub.on("GET", f"/v1/tasks/{ID}/upcoming", {"upcoming": [{"at": "2026-02-10T08:00:00.000Z", "note": None}]})
    assert ask("upcoming", ID).lines[1].endswith("2026-02-10 08:00:00Z  report")
    assert ask("upcoming", ID).lines[1].endswith(f"2026-02-10 08:00:00Z  {ID}")


def test_a_terminal_shows_the_local_time_of_fires_and_where_the_clocks_change(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}", task(name="report", time_zone="Europe/Berlin"))
    fires = [{"at": "2026-03-28T07:00:00.000Z", "note": None}, {"at": "2026-03-29T06:00:00.000Z", "note": "x"}, {"at": "2026-03-30T06:00:00.000Z", "note": None}]
    stub.on("GET", f"/v1/tasks/{ID}/upcoming", {"upcoming": fires})
    head, *lines = ask("upcoming", ID, tty=200).lines
    assert head.split() == ["LOCAL", "AT", "TASK", "NOTE"]
    assert [line[:27] for line in lines] == ["Sat 2026-03-28 08:00:00 CET", "Sun 2026-03-29 08:00:00 CES", "Mon 2026-03-30 08:00:00 CES"]
    assert ["the clocks have changed" in line for line in lines] == [False, True, False] and "x; the clocks" in lines[1]
    assert ask("upcoming", ID).lines[0].split() == ["AT", "TASK", "NOTE"], "scripts read what they read before"


def test_add_names_the_calendar(ask, stub):
    stub.on("POST", "/v1/tasks", (201, task(calendar="de", calendar_policy="NEXT_DAY", next_execution=None)))
    assert "On business days of the calendar de; a fire on another day moves to the next one" in ask("add", "--every", "1d", "--noop", "--calendar", "de").lines


def test_status_prints_the_state_once(ask, stub):
    stub.on("GET", "/v1/scheduler/status", {"version": "1", "node": {"name": "n", "running": 2, "slots": 9}, "tasks": {"FAILED": 4}})
    stub.on("GET", "/v1/tasks", {"tasks": []})
    stub.on("GET", "/v1/dlq", {"tasks": []})
    done = ask("status", tty=100)
    assert done.code == 0 and "Running 2 of 9" in done.out and "FAILED 4" in done.out
    assert json.loads(ask("status", "--json").out)["version"] == "1"
    for command in ("status", "serve"):
        assert "GET /health" in ask(command, "--help").out and "GET /ready" in ask(command, "--help").out


def test_skipped_days_do_not_count_among_the_fires_asked_for(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}", task(name="report"))
    fires = [{"at": f"2026-02-{day:02}T08:00:00.000Z", "note": "skipped" if day % 2 else None, "skipped": bool(day % 2)} for day in range(1, 6)]
    stub.on("GET", f"/v1/tasks/{ID}/upcoming", {"upcoming": fires})
    assert len(ask("upcoming", ID, "-n", "2").lines) == 6, "the server has counted"


@pytest.mark.parametrize("pause, end", [({"until": "2026-03-01T00:00:00.000Z"}, "2026-03-01 00:00:00Z, or "), (None, "")])
def test_upcoming_of_a_step_names_the_run_that_is_resumed_and_the_end_of_its_pause(ask, stub, pause, end):
    outermost = ID[:-1] + "3"
    stub.on("GET", f"/v1/tasks/{ID}", task(status="PAUSED", run=OTHER))
    stub.on("GET", f"/v1/workflows/{OTHER}", {"id": OTHER, "run": outermost, "paused": True})
    stub.on("GET", f"/v1/workflows/{outermost}", {"id": outermost, "run": None, "paused": True, "pause": pause})
    stub.on("GET", f"/v1/tasks/{ID}/upcoming", {"upcoming": [{"at": "2026-02-10T08:00:00.000Z"}]})
    said = f"belfry upcoming: the task is PAUSED: it does not fire until {end}'belfry workflow resume {outermost}'\n"
    assert ask("upcoming", ID).err == said


def test_upcoming_of_a_task_that_does_not_fire_says_so(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}", task(status="PAUSED"), task(status="CANCELLED", completed_at="2026-02-10T08:00:00.000Z"))
    stub.on("GET", f"/v1/tasks/{ID}/upcoming", {"upcoming": [{"at": "2026-02-10T08:00:00.000Z"}]}, {"upcoming": []})
    paused, cancelled = ask("upcoming", ID), ask("upcoming", ID)
    assert paused.err == f"belfry upcoming: the task is PAUSED: it does not fire until 'belfry resume {ID}'\n" and len(paused.lines) == 2
    assert (cancelled.out, cancelled.err) == ("", "belfry upcoming: the task is CANCELLED and does not fire again\n")


# ---- dead letters ----


def test_archived_dead_letters_show_the_reason(ask, stub):
    stub.on("GET", "/v1/dlq", page([task(status="FAILED", cause="c1", resolved_at="2026-02-10T08:00:00.000Z",
                                         resolution={"how": "archived", "by": "admin", "reason": REASON})]))
    lines = ask("dlq", "list", "--archived").lines
    assert lines[0].split() == ["ID", "NAME", "CAUSE", "ARCHIVED", "REASON"] and lines[1].endswith(f"2026-02-10 08:00:00Z  {REASON}")


def test_a_redrive_shows_what_it_waits_for(build, stub):
    def job(state, **more):
        return {"id": ID, "kind": "redrive", "state": state, "reason": None, "failed": 0, "failures": [], "total": 45, "total_exact": True, **more}

    stub.on("POST", "/v1/dlq/retry", (202, job("RUNNING", done=1, phase="FIRST", watched=[OTHER])))
    stub.on("GET", f"/v1/jobs/{ID}", job("RUNNING", done=11, phase="TEN", watched=[OTHER] * 4),
            job("RUNNING", done=30, phase="REST", succeeded=20, failed_again=1, watched=[]),
            job("DONE", done=45, phase="REST", succeeded=41, failed_again=1, watched=[OTHER] * 3))
    master, slave = pty.openpty()
    done = subprocess.run([build / "belfry", "dlq", "retry", "--all", "--server", stub.url, "--key", KEY], stdout=subprocess.PIPE, stderr=slave,
                          timeout=20, check=False)
    os.close(slave)
    chunks = []
    read_terminal(master, chunks)  # all: the kernel hands it over in parts
    os.close(master)
    told = b"".join(chunks).decode()
    assert done.stdout == b"45 set to try again: 41 succeeded, 1 failed again, 3 not over yet\n"
    assert re.split(r"\r+(?:\x1b\[K|\n)", told) == [f"Job {ID}: tries 1 task, then 10, then the rest, as long as they succeed", "",
        "1 of 45, waiting for the first one to succeed", "11 of 45, waiting for 4 of the next ten to succeed",
        "30 of 45, 20 succeeded, 1 failed again", ""], told


# ---- workers ----


def test_workers_show_what_they_serve_and_the_memory_of_their_machine(ask, stub):
    about = {"queues": ["mail", "reports"], "tenants": ["acme"], "labels": [], "priority_min": 0, "priority_max": 3,
             "cpu": {"milli": 2000, "load": 1.5}, "memory": {"mb": 8000, "machine_mb": 16000, "used_mb": 4000}}
    worker = {"id": ID, "name": "host:1", "state": "alive", "slots": 10, "running": 2, "seen_at": "2026-02-10T08:00:00.000Z"}
    stub.on("GET", "/v1/workers", page([{**worker, "about": about}, {**worker, "about": {}}], member="workers"))
    rows = [re.split(r"  +", line) for line in ask("workers").lines]
    assert rows[0] == ["NAME", "STATE", "RUNNING", "SLOTS", "QUEUES", "TENANTS", "PRIORITIES", "LABELS", "CPU", "MEMORY", "SEEN"]
    assert rows[1][4:] == ["mail,reports", "acme", "0-3", "-", "1.5/2", "25% of 16000 MB, 8000 for tasks", "2026-02-10 08:00:00Z"]
    assert rows[2][4:] == ["all", "all", "-", "-", "-", "-", "2026-02-10 08:00:00Z"]


# ---- options that a verb does not take, and hints ----


@pytest.mark.parametrize("args, sentence", [
    (["queue", "list", "--rate", "5"], "--rate is for set, not for list"),
    (["queue", "set", "mail", "--reason", "x"], "--reason is for pause, not for set"),
    (["tenant", "show", "acme", "--max-pending", "5"], "--max-pending is for create and set, not for show"),
    (["key", "list", "--scopes", "admin"], "--scopes is for create, not for list"),
    (["calendar", "rm", "x", "--exclude", "2026-12-25"], "--exclude is for set, not for rm"),
    (["dlq", "groups", "--cause", "x"], "--cause is for list and retry, not for groups"),
    (["dlq", "show", ID, "--reason", "x"], "--reason is for archive, not for show"),
    (["dlq", "archive", ID, "--limit", "3"], "--limit is for list, not for archive"),
    (["dlq", "retry", ID, "--rate", "5"], "--rate is for a retry by filter: leave out the tasks, or this option"),
    (["dlq", "retry", "--all", "--edit", "{}"], "--edit is for a retry of given tasks; to change many, name them: belfry dlq retry --edit JSON $(belfry dlq list --all --json --cause CAUSE | jq -r .id)"),
    (["job", "list", "--wait"], "--wait is for show, not for list"),
    (["migrate", "status", "--yes"], "--yes is for down, not for status"),
    (["run", "--force", "--filter", "queue=q"], "--force is for given tasks: leave out --filter"),
    (["add", "--noop", "--quiet", "--json"], "--quiet and --json exclude each other; give only one of them"),
    (["top", "--once", "--every", "5s"], "--every and --once exclude each other; give only one of them"),
])
def test_an_option_without_effect_is_refused(ask, stub, args, sentence):
    done = ask(*args)
    assert (done.code, done.out, done.err) == (2, "", f"belfry {args[0]}: {sentence}\n")
    assert not stub.requests


def test_hints_name_the_server_that_was_asked(ask, stub, tmp_path):
    stub.on("GET", "/v1/tasks", page([]))
    where = ["--server", stub.url, "--key", "bf_x", "--data-dir", str(tmp_path / "my data")]
    assert ask("show", "nothing", *where).err.endswith(f"; 'belfry list --server {stub.url} --data-dir '{tmp_path}/my data'' prints them\n")
    (tmp_path / "key").write_text("bf_y")
    assert f"'belfry list --server {stub.url} --key file:{tmp_path}/key' prints" in ask("show", "x", "--server", stub.url, "--key", f"file:{tmp_path}/key").err
    stub.on("PATCH", ".*", task(status="PAUSED"))
    assert f"'belfry resume {ID} --server {stub.url}'" in ask("edit", ID, "--name", "x", "--server", stub.url).out
