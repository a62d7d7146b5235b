"""The commands that ask a server, against one that follows a script (stub_server): what they send, print and return."""

import datetime
import json
import os
import pty
import re
import shlex
import socket
import subprocess
import uuid

import pytest

from conftest import read_terminal
from server import now_ms, to_ms
from stub_server import DROP, Stub, problem

ID = "019c3f2e-7a40-7000-8000-000000000001"
OTHER = "019c3f2e-7a40-7000-8000-000000000002"
KEY = "bf_test_0123456789"
ACTIONS = {"pause": ("POST", "/pause", "paused"), "resume": ("POST", "/resume", "resumed"),
           "cancel": ("POST", "/cancel", "cancelled"), "rm": ("DELETE", "", "removed"),
           "run": ("POST", "/run-now", "set to run now"), "retry": ("POST", "/retry", "set to try again")}
API_COMMANDS = ["add", "list", "show", "edit", "history", *ACTIONS]


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def instant(**later):
    """So many hours from now, with some slack so that a relative time does not change while the command starts, however full the machine is."""
    assert "hours" in later, "shorter times are told to the second"
    at = now() + datetime.timedelta(**later) + datetime.timedelta(seconds=30 if later["hours"] > 0 else 0)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def shown(text):
    """A time as tables show it."""
    return text.replace("T", " ").replace(".000Z", "Z")


def task(**more):
    return {"id": ID, "type": "ONE_TIME", "status": "SCHEDULED", "name": "report", "queue": "default", "priority": 5,
            "run_at": "2026-02-10T08:00:00.000Z", "next_execution": None, "version": 1, "attempts": 0,
            "target_type": "HTTP_CALLBACK", "target_config": {"url": "https://example.com/x", "method": "POST"},
            "created_at": "2026-02-01T00:00:00.000Z", "updated_at": "2026-02-01T00:00:00.000Z", **more}


def page(tasks, cursor=None, member="tasks"):
    return {member: tasks, "pagination": {"next_cursor": cursor, "limit": 20}}


@pytest.fixture
def stub():
    s = Stub()
    yield s
    s.close()


@pytest.fixture
def ask(belfry, stub, tmp_path):
    """ask("list", …): belfry with the stub as its server, a key, and a home of its own."""
    def run(*args, env=None, key=KEY, **more):
        clean = {"HOME": str(tmp_path), "BELFRY_SERVER": stub.url, "BELFRY_KEY": key, "BELFRY_DATA_DIR": "",
                 "XDG_DATA_HOME": "", "http_proxy": "http://127.0.0.1:1", **(env or {})}
        return belfry(*args, env=clean, **more)
    return run


# ---- what every command sends ----


def test_requests_carry_key_agent_and_json(ask, stub):
    stub.on("POST", "/v1/tasks", (201, task()))
    assert ask("add", "--noop", "--quiet").code == 0
    [r] = stub.requests
    assert r.headers["Authorization"] == f"Bearer {KEY}"
    assert r.headers["User-Agent"].startswith("Belfry/")
    assert r.headers["Accept"] == "application/json"
    assert r.headers["Content-Type"] == "application/json"
    assert "Expect" not in r.headers


def test_state_changing_requests_have_idempotency_keys_of_their_own_and_reads_none(ask, stub):
    stub.on("GET", "/v1/tasks", page([]))
    stub.on("POST", "/v1/tasks/.*", task())
    stub.on("DELETE", "/v1/tasks/.*", (204, None))
    ask("list")
    ask("pause", ID, OTHER)
    ask("rm", ID)
    keys = [r.headers.get("Idempotency-Key") for r in stub.requests]
    assert keys[0] is None
    assert len({uuid.UUID(k) for k in keys[1:]}) == 3


def test_one_connection_serves_many_calls(ask, stub):
    stub.on("POST", "/v1/tasks/.*", task())
    assert ask("pause", *[ID] * 5).code == 0
    assert len(stub.requests) == 5 and len({r.connection for r in stub.requests}) == 1


def test_server_is_taken_from_the_flag_then_the_environment(ask, stub, belfry):
    stub.on("GET", "/v1/tasks", page([]))
    assert ask("list", "--server", stub.url + "/", env={"BELFRY_SERVER": "http://127.0.0.1:1"}).code == 0
    assert ask("list").code == 0
    assert len(stub.requests) == 2


@pytest.mark.parametrize("url, sentence", [
    ("127.0.0.1:8080", "--server must begin with http:// or https://"),
    ("ftp://127.0.0.1", "--server must begin with http:// or https://"),
    ("http://", "--server must begin with http:// or https://"),
    ("http://:80", "--server is not a URL: write it as http://127.0.0.1:8080"),
    ("http://a b", "--server is not a URL: write it as http://127.0.0.1:8080"),
])
def test_wrong_server_is_wrong_usage(ask, url, sentence):
    done = ask("list", "--server", url)
    assert (done.code, done.out, done.err) == (2, "", f"belfry list: {sentence}\n")


# ---- keys ----


def test_key_is_taken_from_flag_environment_and_files(ask, stub, tmp_path):
    stub.on("GET", "/v1/tasks", page([]))
    data = tmp_path / "data"
    data.mkdir()
    (data / "admin.key").write_text("bf_data_dir\n")
    (tmp_path / "key").write_text("  bf_file \r\n")
    home = tmp_path / ".local/share/belfry"
    home.mkdir(parents=True)
    (home / "admin.key").write_text("bf_home")
    xdg = tmp_path / "xdg/belfry"
    xdg.mkdir(parents=True)
    (xdg / "admin.key").write_text("bf_xdg")
    cases = [
        (["--key", "bf_flag"], {}, "bf_flag"),
        (["--key", f"file:{tmp_path}/key"], {}, "bf_file"),
        ([], {"BELFRY_KEY": f"file:{tmp_path}/key"}, "bf_file"),
        ([], {"BELFRY_KEY": "", "BELFRY_DATA_DIR": str(data)}, "bf_data_dir"),
        (["--data-dir", str(data)], {"BELFRY_KEY": ""}, "bf_data_dir"),
        ([], {"BELFRY_KEY": "", "XDG_DATA_HOME": str(tmp_path / "xdg")}, "bf_xdg"),
        ([], {"BELFRY_KEY": "", "XDG_DATA_HOME": "relative"}, "bf_home"),
        ([], {"BELFRY_KEY": ""}, "bf_home"),
    ]
    for args, env, key in cases:
        assert ask("list", *args, env=env).code == 0
        assert stub.requests[-1].headers["Authorization"] == f"Bearer {key}"


def test_local_key_is_not_sent_to_a_server_elsewhere(ask, stub, tmp_path):
    """A proxy stands for the server elsewhere: it sees the request as it would go out."""
    stub.on("GET", ".*", page([]))
    home = tmp_path / ".local/share/belfry"
    home.mkdir(parents=True)
    (home / "admin.key").write_text("bf_home")
    far = {"BELFRY_SERVER": "http://belfry.example:8080", "http_proxy": stub.url, "BELFRY_KEY": ""}
    ask("list", env=far)
    assert "Authorization" not in stub.requests[-1].headers
    for server in ("http://localhost.example", "http://127.example", "http://127.0.0.1@belfry.example"):
        ask("list", env={**far, "BELFRY_SERVER": server})
        assert stub.requests[-1].headers.get("Authorization", "").startswith("Bearer") is False
    ask("list", "--data-dir", str(home), env=far)
    assert stub.requests[-1].headers["Authorization"] == "Bearer bf_home"


def test_401_says_where_a_key_was_looked_for(ask, stub, tmp_path):
    stub.on("GET", "/v1/tasks", problem(401, "a key is needed"))
    start = f"belfry list: the server at {stub.url} requires an API key; "
    assert ask("list").err == start + "the key of BELFRY_KEY is not accepted\n"
    assert ask("list", "--key", "bf_x").err == start + "the key of --key is not accepted\n"
    path = tmp_path / ".local/share/belfry/admin.key"
    done = ask("list", key="")
    assert (done.code, done.err) == (1, start + f"none was found in --key, BELFRY_KEY or {path}\n")
    path.parent.mkdir(parents=True)
    path.write_text("\n")
    assert ask("list", key="").err == start + f"none was found in --key, BELFRY_KEY or {path} is empty\n"
    path.write_text("bf_old")
    assert ask("list", key="").err == start + f"the key in {path} is not accepted\n"
    assert ask("list", key="", env={"BELFRY_SERVER": stub.url.replace("127.0.0.1", "0.0.0.0"), "no_proxy": "*"}).err == (
        f"belfry list: the server at {stub.url.replace('127.0.0.1', '0.0.0.0')} requires an API key; "
        "none was found in --key or BELFRY_KEY\n")


@pytest.mark.parametrize("key, sentence", [
    ("a b", "--key: is not an API key: it contains blanks or unprintable characters"),
    ("a\nX-Evil: 1", "--key: is not an API key: it contains blanks or unprintable characters"),
    ("bf_ü", "--key: is not an API key: it contains blanks or unprintable characters"),
    ("file:/nonexistent/key", "--key cannot be read: /nonexistent/key: No such file or directory"),
    ("file:/dev/null", "--key cannot be read: /dev/null is empty"),
    ("file:/dev/zero", "--key cannot be read: /dev/zero is too long to be a secret"),
])
def test_bad_keys_are_wrong_usage(ask, stub, key, sentence):
    done = ask("list", "--key", key)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"belfry list: {sentence}\n".replace("--key: is", "--key is")
    assert not stub.requests


# ---- when the server is away, or is none ----


@pytest.mark.parametrize("command", API_COMMANDS)
def test_unreachable_exits_3(ask, command):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{s.getsockname()[1]}"
    words = {"add": ["--noop"], "list": [], "edit": [ID, "--name", "x"]}.get(command, [ID])
    done = ask(command, *words, "--server", url)
    assert done.code == 3
    assert done.err == f"belfry {command}: cannot reach {url} (connection refused); is 'belfry serve' running?\n"


def test_unknown_host_exits_3(ask):
    done = ask("list", "--server", "http://no-such-host.invalid:1", env={"http_proxy": ""})
    assert done.code == 3
    assert done.err.startswith("belfry list: cannot reach http://no-such-host.invalid:1 (could not resolve host")


@pytest.mark.parametrize("drops", [1, 2])
def test_lost_answers_are_asked_again_under_the_same_key(ask, stub, drops):
    stub.on("POST", "/v1/tasks", *[DROP] * drops, (201, task()))
    done = ask("add", "--noop", "-q")
    assert (done.code, done.out, done.err) == (0, f"{ID}\n", "")
    assert len(stub.requests) == drops + 1
    assert len({r.headers["Idempotency-Key"] for r in stub.requests}) == 1
    assert all(r.body == stub.requests[0].body for r in stub.requests)


def test_after_three_losses_it_gives_up(ask, stub):
    stub.on("POST", "/v1/tasks", DROP)
    done = ask("add", "--noop")
    assert (done.code, done.out) == (3, "")
    assert re.fullmatch(f"belfry add: cannot reach {stub.url} \\(.+\\)\n", done.err)
    assert len(stub.requests) == 3


def test_what_is_still_at_work_after_a_loss_is_asked_again(ask, stub):
    stub.on("POST", "/v1/tasks", DROP, problem(409, "a request with this key is in flight"), (201, task()))
    assert ask("add", "--noop", "-q").out == f"{ID}\n"
    assert len(stub.requests) == 3


def test_a_conflict_without_a_loss_is_final(ask, stub):
    stub.on("POST", "/v1/tasks", problem(409, "no"), (201, task()))
    assert ask("add", "--noop").code == 1
    assert len(stub.requests) == 1


def test_reads_are_asked_again_too(ask, stub):
    stub.on("GET", "/v1/tasks", DROP, page([task()]))
    assert ID in ask("list").out


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{", b'{"a": 1, "a": 2}', b"\xff"])
def test_what_is_not_json_is_refused(ask, stub, body):
    stub.on("GET", "/v1/tasks", body)
    done = ask("list")
    assert done.code == 1
    assert done.err.startswith(f"belfry list: the answer of {stub.url} ") and done.err.endswith("; is it a Belfry server?\n")


def test_strange_but_valid_answers_do_no_harm(ask, stub):
    for body in ([], 5, "x", {}, {"tasks": 5}, {"tasks": {"a": 1}}, {"tasks": [None, 5, [], {}]},
                 {"tasks": [{"id": 5, "name": [], "next_execution": "soon", "target_config": 3}]}):
        stub.rules.clear()
        stub.on("GET", ".*", body)
        stub.on("POST", ".*", body)
        stub.on("PATCH", ".*", body)
        for args in (["list"], ["list", "--json"], ["show", ID], ["history", ID], ["history", "--occurrences", ID],
                     ["add", "--noop"], ["edit", ID, "-X", "GET"], ["pause", ID]):
            assert ask(*args).code == 0, (body, args)
        assert ask("run", "--filter", "queue=q").code == 1, body  # a job that does not say it is done


# ---- refusals ----


@pytest.mark.parametrize("answer, sentence", [
    (problem(422, "the task is not valid", [("cron_expression", "minute: 60 is not between 0 and 59")]),
     "belfry add: cron_expression: minute: 60 is not between 0 and 59\n"),
    (problem(422, "two things", [("queue", "must not be empty"), ("retry.max_attempts", "must be at least 1")]),
     "belfry add: queue: must not be empty\nbelfry add: retry.max_attempts: must be at least 1\n"),
    (problem(503, "the disk is full"), "belfry add: the disk is full\n"),
    (problem(429, "", title="Too many requests"), "belfry add: Too many requests\n"),
    ((500, {}), "belfry add: the server answered with status 500\n"),
    ((502, b"<html>Bad Gateway</html>"), "belfry add: the server answered with status 502\n"),
    ((302, b""), "belfry add: the server answered with status 302\n"),
    (problem(400, "a\x1b[31mb\nc"), "belfry add: a?[31mb?c\n"),
])
def test_refusals_are_told_and_exit_1(ask, stub, answer, sentence):
    stub.on("POST", "/v1/tasks", answer)
    done = ask("add", "--noop")
    assert (done.code, done.out, done.err) == (1, "", sentence)


def test_a_refusal_names_the_task_unless_it_does_so_itself(ask, stub):
    stub.on("POST", ".*/pause", problem(409, "the task is COMPLETED and cannot be paused"))
    stub.on("POST", ".*/cancel", problem(409, f"task {ID} is COMPLETED"))
    stub.on("GET", ".*", problem(404, "there is no such task"))
    stub.on("PATCH", ".*", problem(422, "", [("priority", "must be between 0 and 9")]))
    assert ask("pause", ID).err == f"belfry pause: {ID}: the task is COMPLETED and cannot be paused\n"
    assert ask("cancel", ID).err == f"belfry cancel: task {ID} is COMPLETED\n"
    assert ask("show", ID).err == f"belfry show: {ID}: there is no such task\n"
    assert ask("history", ID).err == f"belfry history: {ID}: there is no such task\n"
    assert ask("edit", ID, "--priority", "3").err == f"belfry edit: {ID}: priority: must be between 0 and 9\n"


# ---- list ----


def test_list_is_a_table(ask, stub):
    soon, past = instant(hours=5), instant(hours=-3)
    stub.on("GET", "/v1/tasks", page([
        task(next_execution=soon),
        task(id=OTHER, name="täglich", status="PAUSED", type="RECURRING", next_execution=past,
             cron_expression="0 8 * * MON-FRI", time_zone="Europe/Berlin", target_type="NOOP", target_config={}),
        task(name=None, status="COMPLETED", type="RECURRING", interval_seconds=5400.5, time_zone="UTC",
             target_config={"url": "http://a/b"}),
    ]))
    for tty in (True, False):
        lines = ask("list", tty=tty).lines
        cells = [re.split(r"  +", line) for line in lines]
        assert cells[0] == ["ID", "NAME", "STATUS", "NEXT", "SCHEDULE", "TARGET"]
        assert cells[1] == [ID, "report", "SCHEDULED", f"in 5h, {shown(soon)}", "once", "POST https://example.com/x"]
        assert cells[2] == [OTHER, "täglich", "PAUSED", f"3h ago, {shown(past)}", "0 8 * * MON-FRI Europe/Berlin", "NOOP"]
        assert cells[3] == [ID, "COMPLETED", "-", "every 1h30m500ms", "POST http://a/b"]
        assert len({line.index(s) for line, s in zip(lines, ["STATUS", "SCHEDULED", "PAUSED", "COMPLETED"])}) == 1


def test_list_keeps_terminals_safe_and_fits_their_width(ask, stub):
    stub.on("GET", "/v1/tasks", page([task(name="a\x1b[31m\n\u202eb", target_config={"url": "http://" + "x" * 500})]))
    for columns in (120, 200):
        out = ask("list", tty=True, columns=columns).out
        assert "a?[31m ?b " in out and "x…\n" in out and max(len(line) for line in out.splitlines()) == columns
    assert "http://" + "x" * 500 + "\n" in ask("list").out, "nothing is cut for a pipe"


def test_list_sends_its_filters(ask, stub):
    stub.on("GET", "/v1/tasks", page([task()]))
    ask("list", "--status", "paused", "--type", "one_time", "--name", "a b&c=ü", "--queue", "q", "--task-type", "t.u",
        "--due-before", "2026-02-10T09:00:00+01:00", "--due-after", "2026-01-01T00:00:00Z", "-n", "7")
    assert stub.requests[-1].query == {
        "status": "PAUSED", "type": "ONE_TIME", "name": "a b&c=ü*", "queue": "q", "task_type": "t.u", "limit": "7",
        "due_before": "2026-02-10T08:00:00.000Z", "due_after": "2026-01-01T00:00:00.000Z"}
    ask("list", "--status", "active")
    assert stub.requests[-1].query == {"status": "ACTIVE", "limit": "20"}
    ask("list", "--recurring")
    assert stub.requests[-1].query == {"type": "RECURRING", "limit": "20"}
    ask("list", "--no-recurring")
    assert stub.requests[-1].query == {"limit": "20"}


def numbered(first, count):
    return [task(id=str(uuid.UUID(int=0x7000_8000_0000_0000_0000 + first + i)), name=f"n{first + i}") for i in range(count)]


def paged(total):
    """A list of so many tasks, by cursors that need encoding."""
    def answer(request):
        start = int(request.query.get("cursor", "c+/0")[3:])
        limit = min(int(request.query["limit"]), total - start)
        end = start + limit
        return page(numbered(start, limit), f"c+/{end}" if end < total else None)
    return answer


def test_list_follows_cursors(ask, stub):
    stub.on("GET", "/v1/tasks", paged(2500))
    done = ask("list", "--all", "--json")
    assert [json.loads(line)["name"] for line in done.lines] == [f"n{i}" for i in range(2500)]
    assert [r.query["limit"] for r in stub.requests] == ["1000", "1000", "1000"]
    stub.requests.clear()
    done = ask("list", "--limit", "1200")
    assert len(done.lines) == 1201 and done.lines[0].startswith("ID ") and "ID  " not in done.out[10:]
    assert [r.query["limit"] for r in stub.requests] == ["1000", "200"]


def test_list_says_when_there_is_more(ask, stub):
    stub.on("GET", "/v1/tasks", paged(30))
    assert ask("list", tty=True).err == "20 shown, there are more: use --limit N or --all\n"
    assert ask("list").err == ask("list", "--json").err == "20 shown, there are more: use --limit N or --all\n"
    assert ask("list", "--json", "--limit", "20").err == ""
    assert ask("list", "--all", tty=True).err == ""


def test_an_empty_list_is_no_failure(ask, stub):
    stub.on("GET", "/v1/tasks", page([]))
    done = ask("list")
    assert (done.code, done.out, done.err) == (0, "", "belfry list: there are no matching tasks\n")
    assert ask("list", "--json").err == ""


def test_json_is_the_servers_own_one_object_a_line(ask, stub):
    stub.on("GET", "/v1/tasks", b'{\n "tasks": [\n  {"id": "a",\n   "x": 1.50}, {"id":"b","s":"\\n"}\n ],\n "pagination": {}\n}\n')
    assert ask("list", "--json").out == '{"id": "a",    "x": 1.50}\n{"id":"b","s":"\\n"}\n'


def test_a_failure_on_a_later_page_is_a_failure(ask, stub):
    stub.on("GET", "/v1/tasks", page([task()], "c"), problem(503, "gone"))
    done = ask("list", "--all")
    assert done.code == 1 and ID in done.out and done.err == "belfry list: gone\n"


# ---- show and history ----


EXECUTIONS = [
    {"id": OTHER, "task_id": ID, "attempt_number": 2, "status": "COMPLETED", "started_at": "2026-02-10T08:00:05.250Z",
     "completed_at": "2026-02-10T08:00:06.500Z", "scheduled_for": "2026-02-10T08:00:00.000Z", "delay_ms": 1.75,
     "http_status": 200, "error_message": None},
    {"id": ID, "task_id": ID, "attempt_number": 1, "status": "FAILED", "started_at": "2026-02-10T08:00:00.001Z",
     "completed_at": "2026-02-10T08:00:00.013Z", "scheduled_for": "2026-02-10T08:00:00.000Z", "delay_ms": 90000,
     "http_status": None, "error_message": "connection refused\nreally"},
    {"status": "LOST", "scheduled_for": "2026-02-10T08:00:00.000Z"},
]
EXECUTION_CELLS = [
    ["WHEN", "ATTEMPT", "STATUS", "HTTP", "DELAY", "TOOK", "ERROR"],
    ["2026-02-10 08:00:05.250Z", "2", "COMPLETED", "200", "1ms", "1.2s"],
    ["2026-02-10 08:00:00.001Z", "1", "FAILED", "-", "1m30s", "12ms", "connection refused really"],
    ["2026-02-10 08:00:00Z", "-", "LOST", "-", "-", "-"],
]


def cells_of(lines):
    return [re.split(r"  +", line) for line in lines]


def test_show_prints_facts_and_executions(ask, stub):
    at = instant(hours=2, minutes=5)
    stub.on("GET", f"/v1/tasks/{ID}", task(
        type="RECURRING", cron_expression="0 8 * * *", time_zone="UTC", next_execution=at, runs_count=4, max_runs=10,
        skipped_count=0, timeout_ms=30000, attempts=2, retry={"max_attempts": 5}, last_error="boom", metadata={"team": "a"},
        payload=None, executions=EXECUTIONS))
    for tty in (True, False):
        done = ask("show", ID, tty=tty)
        facts, _, executions = done.out.partition("\n\n")
        told = dict(re.split(r"  +", line, maxsplit=1) for line in facts.splitlines())
        assert told["Id"] == ID and told["Name"] == "report" and told["Status"] == "SCHEDULED"
        assert told["Schedule"] == "0 8 * * *" and told["Next"] == f"in 2h5m, {shown(at)}"
        assert told["Target"] == "POST https://example.com/x" and told["Max runs"] == "10" and told["Runs"] == "4"
        assert told["Timeout"] == "30.0s" and told["Attempts"] == "2 of at most 5"
        assert told["Last error"] == "boom" and told["Metadata"] == '{"team": "a"}' and told["Version"] == "1"
        assert re.fullmatch(r"\d+d ago, 2026-02-01 00:00:00Z|in .*, 2026-02-01 00:00:00Z", told["Created"])
        assert told["Skipped"] == "0" and "Payload" not in told and "Started" not in told
        assert cells_of(executions.splitlines()) == EXECUTION_CELLS


def test_show_shows_deep_and_long_values_whole(ask, stub):
    deep = 1
    for _ in range(29):
        deep = [deep]
    config = {"url": "https://example.com/" + "x" * 300, "body": deep}
    stub.on("GET", f"/v1/tasks/{ID}", task(target_config=config, last_error="e" * 1000))
    out = ask("show", ID).out
    assert json.dumps(config) in out and "e" * 1000 in out
    stub.on("GET", "/v1/tasks", page([task(target_config=config)]))
    assert ask("list").code == 0


def test_show_prints_the_output_of_the_latest_attempt(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}", task(executions=[{**EXECUTIONS[0], "output": '{"frames": 7}'}, {**EXECUTIONS[1], "output": "first"}]))
    out = ask("show", ID).out
    assert re.search(r'^Output +\{"frames": 7\}$', out, re.M) and "first" not in out


def test_show_prints_an_output_of_several_lines_as_one_line(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}", task(executions=[{**EXECUTIONS[0], "output": "a\tb\nc\x07\r\n"}]))
    assert re.search(r"^Output +a b c\?$", ask("show", ID).out, re.M)


def test_a_dead_letter_is_shown_with_all_attempts_and_no_empty_lines_between(ask, stub):
    stub.on("GET", f"/v1/dlq/{ID}", task(status="FAILED", executions=[{**EXECUTIONS[0], "output": "second"}, EXECUTIONS[1], EXECUTIONS[2]]))
    last = ask("dlq", "show", ID).out.split("\n\n")[-1]
    assert last == "Attempt 0\nAttempt 1:\n  connection refused really\nAttempt 2:\n  second\n"


def test_show_takes_several_ids_and_goes_on_after_a_refusal(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}", problem(404, "there is none"))
    stub.on("GET", f"/v1/tasks/{OTHER}", task(id=OTHER))
    done = ask("show", ID, OTHER, OTHER)
    assert done.code == 1 and done.err == f"belfry show: {ID}: there is none\n"
    assert done.out.count(f" {OTHER}\n") == 2 and "\n\nId " in done.out
    done = ask("show", OTHER, OTHER, "--json")
    assert [json.loads(line)["id"] for line in done.lines] == [OTHER, OTHER]


def test_history_prints_executions(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}/executions", page(EXECUTIONS, member="executions"))
    for tty in (True, False):
        assert cells_of(ask("history", ID, tty=tty).lines) == EXECUTION_CELLS
    assert [json.loads(line) for line in ask("history", ID, "--json").lines] == EXECUTIONS
    ask("history", ID, "--status", "FAILED", "--limit", "3")
    assert stub.requests[-1].query == {"status": "FAILED", "limit": "3"}


def test_history_without_a_task_prints_what_ran(ask, stub):
    row = {**EXECUTIONS[0], "task_name": "report", "queue": "mail"}
    stub.on("GET", "/v1/executions", {"executions": [row, {**row, "task_name": None, "queue": None, "worker": None}], "pagination": {"limit": 20}})
    done = ask("history", "--status", "FAILED", "--queue", "mail", "--from", "2026-02-10T08:00:00Z")
    head, first, second = cells_of(done.lines)
    assert head == ["ENDED", "STATUS", "TASK", "QUEUE", "ATTEMPT", "TOOK", "WORKER", "ERROR"]
    assert first[2:4] == ["report", "mail"] and second[2:4] == [ID, "-"], (first, second)
    assert stub.requests[-1].query == {"status": "FAILED", "queue": "mail", "from": "2026-02-10T08:00:00.000Z", "limit": "20"}
    ask("history", "--from", "2026-02-10", "--to", "2026-02-11")
    assert (stub.requests[-1].query["from"], stub.requests[-1].query["to"]) == ("2026-02-10T00:00:00.000Z", "2026-02-11T00:00:00.000Z")
    ask("history", "--from", "1h")
    assert 3590000 < now_ms() - to_ms(stub.requests[-1].query["from"]) < 3700000
    wrong = ask("history", "--queue", "mail", ID)
    assert wrong.code == 2 and "leave TASK out" in wrong.err
    assert ask("history", "--occurrences").code == 2


def test_history_prints_occurrences(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}/occurrences", page([
        {"id": OTHER, "scheduled_for": "2026-02-10T08:00:00.000Z", "status": "SKIPPED", "reason": "overlap", "attempts": 0},
        {"id": OTHER, "run_at": "2026-02-09T08:00:00.000Z", "status": "FAILED", "last_error": "boom", "attempts": 3},
    ]))
    assert cells_of(ask("history", "--occurrences", ID).lines) == [
        ["WHEN", "STATUS", "ATTEMPTS", "ID", "NOTE"],
        ["2026-02-10 08:00:00Z", "SKIPPED", "0", OTHER, "overlap"],
        ["2026-02-09 08:00:00Z", "FAILED", "3", OTHER, "boom"]]


def test_occurrences_stay_aligned_over_pages(ask, stub):
    def rows(status):
        return [{"id": OTHER, "run_at": "2026-02-10T08:00:00.000Z", "status": status, "attempts": 1}]
    stub.on("GET", f"/v1/tasks/{ID}/occurrences", page(rows("RUNNING"), "c"), page(rows("COMPLETED")))
    lines = ask("history", "--occurrences", ID).lines
    assert len(lines) == 3 and {line.index(word) for line, word in zip(lines, ("ID", OTHER, OTHER))} == {lines[0].index("ID")}


def test_history_leaves_out_what_is_to_come_unless_asked(ask, stub):
    at, rows = "2999-01-01T00:00:00.000Z", []
    rows = [{"id": OTHER, "run_at": at, "status": "SCHEDULED"}] * 3
    rows += [{"id": ID, "run_at": "2026-02-10T08:00:00.000Z", "status": status} for status in ("SCHEDULED", "COMPLETED", "FAILED")]
    stub.on("GET", f"/v1/tasks/{ID}/occurrences", page(rows))
    assert [line.split()[2] for line in ask("history", "--occurrences", ID).lines[1:]] == ["SCHEDULED", "COMPLETED", "FAILED"]
    assert len(ask("history", "--occurrences", "--limit", "2", ID).lines) == 3
    assert len(ask("history", "--occurrences", "--status", "SCHEDULED,COMPLETED,FAILED", ID).lines) == 7


def test_history_knows_which_states_only_occurrences_have(ask, stub):
    done = ask("history", ID, "--status", "COMPLETED,skipped")
    assert (done.code, done.err) == (2, "belfry history: --status SKIPPED is a state of occurrences, not of attempts; add --occurrences\n")
    assert not stub.requests


def test_history_of_what_never_ran_says_so(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}/executions", page([], member="executions"))
    done = ask("history", ID)
    assert (done.code, done.out, done.err) == (0, "", "belfry history: there are no runs yet\n")


@pytest.mark.parametrize("command", ["show", "edit", *ACTIONS])
@pytest.mark.parametrize("words, sentence", [
    ([], "a task is missing: give its id or name; 'belfry list' prints them"),
    ([""], "an argument is empty: give the id or name of a task"),
])
def test_arguments_are_checked_before_anything_is_asked(ask, stub, command, words, sentence):
    done = ask(command, *words)
    assert (done.code, done.out, done.err) == (2, "", f"belfry {command}: {sentence}\n")
    assert not stub.requests


@pytest.mark.parametrize("command", ["history", "edit"])
def test_some_take_one_task_only(ask, command):
    assert ask(command, ID, OTHER).err == f"belfry {command}: takes one task, not 2\n"


@pytest.mark.parametrize("word, asked", [
    ("report", [{"name": "report"}]),
    ("../x&y=z", [{"name": "../x&y=z"}]),
    ("cafe", [{"name": "cafe"}, {"id": "cafe"}, {"id": "cafe", "occurrences": "true"}]),
    (ID[:-1], [{"name": ID[:-1]}, {"id": ID[:-1]}, {"id": ID[:-1], "occurrences": "true"}]),
    ("rep*", []),
])
def test_a_name_and_the_beginning_of_an_id_are_looked_up(ask, stub, word, asked):
    stub.on("GET", "/v1/tasks", page([]))
    done = ask("show", word)
    assert (done.code, done.err) == (1, f"belfry show: there is no task whose id or name is '{word}'; 'belfry list' prints them\n")
    assert [r.query for r in stub.requests] == [{**query, "limit": "10"} for query in asked]


def test_a_word_that_fits_several_tasks_lists_them(ask, stub):
    stub.on("GET", "/v1/tasks", page([task(name="a\x1b[31m"), task(id=OTHER, status="PAUSED", name="b")], "more"), page([task()]))
    done = ask("pause", "cafe")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == ["belfry pause: 'cafe' fits 2 tasks; give the id of one of them:",
                                     f"  {ID}  SCHEDULED  a?[31m", f"  {OTHER}  PAUSED  b"]
    assert {r.method for r in stub.requests} == {"GET"}


def test_what_fits_one_task_is_enough(ask, stub):
    stub.on("GET", "/v1/tasks", page([task()]))
    stub.on("POST", f"/v1/tasks/{ID}/pause", task(status="PAUSED"))
    assert ask("pause", "report").out == f"{ID} paused\n"


# ---- pause, resume, cancel, rm, run, retry ----


@pytest.mark.parametrize("command", ACTIONS)
def test_an_action_on_one_task(ask, stub, command):
    method, verb, done_word = ACTIONS[command]
    at = instant(hours=10)
    status = {"pause": "PAUSED", "cancel": "CANCELLED"}.get(command)
    after = task(status=status) if status else task(next_execution=at)
    stub.on(method, f"/v1/tasks/{ID}{verb}", (204, None) if command == "rm" else after)
    done = ask(command, ID)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{ID} {done_word}\n" + ("" if command == "rm" or status else f"Fires in 10h: {shown(at)}\n")
    assert stub.requests[0].body is None and "Content-Type" not in stub.requests[0].headers
    told = json.loads(ask(command, ID, "--json").out)
    assert told == ({"id": ID, "removed": True} if command == "rm" else after)


@pytest.mark.parametrize("command", ACTIONS)
def test_an_action_on_several_goes_on_after_a_refusal(ask, stub, command):
    method, verb, done_word = ACTIONS[command]
    stub.on(method, f"/v1/tasks/{OTHER}{verb}", problem(409, "cannot be done"))
    stub.on(method, f"/v1/tasks/{ID}{verb}", (204, None) if command == "rm" else task())
    done = ask(command, ID, OTHER, ID)
    assert done.code == 1
    assert done.out == f"2 {done_word}, 1 refused\n"
    assert done.err == f"belfry {command}: {OTHER}: cannot be done\n"


def test_a_pause_has_a_reason_and_an_end(ask, stub):
    stub.on("POST", f"/v1/tasks/{ID}/pause", task(status="PAUSED"))
    assert ask("pause", ID, "--reason", "it's \"late\"", "--until", "2h").out == f"{ID} paused\n"
    assert ask("pause", ID, "--until", "2099-02-10T08:00:00Z").code == 0
    assert [r.body for r in stub.requests] == [{"reason": "it's \"late\"", "for": "2h"}, {"until": "2099-02-10T08:00:00.000Z"}]
    done = ask("pause", ID, "--until", "soon")
    assert done.code == 2 and done.err.startswith("belfry pause: --until must be a time such as 2026-02-10T08:00:00Z, or a duration such as 2h"), done.err


def test_the_end_of_a_pause_is_printed(ask, stub):
    until = task(status="PAUSED", paused={"since": "2098-02-10T08:00:00.000Z", "until": "2099-02-10T08:00:00.000Z"})
    stub.on("POST", f"/v1/tasks/{ID}/pause", until)
    stub.on("PATCH", f"/v1/tasks/{ID}", until)
    stub.on("GET", f"/v1/tasks/{ID}/upcoming", {"upcoming": [], "warnings": [], "status": "PAUSED"})
    assert ask("pause", ID, "--until", "2099-02-10T08:00:00Z").out == f"{ID} paused until 2099-02-10 08:00:00Z\n"
    edited = ask("edit", ID, "--priority", "9").out
    assert f"It does not fire until 2099-02-10 08:00:00Z, or 'belfry resume {ID}'" in edited, edited


def test_a_pause_of_an_unknown_queue_says_so(ask, stub):
    stub.on("GET", "/v1/queues/mial", (404, {"detail": "there is no such queue"}))
    stub.on("GET", "/v1/queues/mail", {"name": "mail"})
    for name in ("mial", "mail"):
        stub.on("PATCH", f"/v1/queues/{name}", {"name": name, "paused": {"until": "2099-02-10T08:00:00.000Z"}})
    done = ask("queue", "pause", "mial")
    assert (done.code, done.out) == (0, "mial paused until 2099-02-10 08:00:00Z\n") and "no queue 'mial' was known before" in done.err, done
    assert ask("queue", "pause", "mail").err == ""
    done = ask("queue", "set", "mail", "--rate=-1")
    assert done.code == 2 and "--rate must be a number from 0 to 1000000" in done.err, done


def test_a_name_that_another_task_has_is_noted(ask, stub):
    stub.on("POST", "/v1/tasks", (201, task(name="report")), (201, task(name="report")))
    stub.on("GET", "/v1/tasks", page([task(name="report"), task(id=OTHER, name="report")]), page([task(name="report")]))
    assert "note: another task has that name already" in ask("add", "--noop", "--name", "report").err
    assert ask("add", "--noop", "--name", "report").err == ""


def test_a_name_of_an_archived_task_is_explained(ask, stub):
    stub.on("GET", "/v1/dlq", lambda request: page([task(status="FAILED", name="x")] if request.query.get("resolved") else []))
    done = ask("dlq", "retry", "x")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == ["belfry dlq: the failed task 'x' is archived; to act on it all the same, give its id:", f"  {ID}  FAILED  x"]


def test_status_names_open_breakers(ask, stub):
    for path in ("/v1/scheduler/status", "/v1/stats", "/v1/tasks", "/v1/dlq"):
        stub.on("GET", path, {})
    stub.on("GET", "/v1/breakers", {"breakers": [{"host": "a.example:443", "state": "OPEN"}, {"host": None, "state": "HALF_OPEN"}]})
    done = ask("status")
    assert done.code == 0 and "Circuit breakers: a.example:443 OPEN, * HALF_OPEN ('belfry breakers list')\n" in done.out, done


def test_status_counts_failures_of_the_last_minutes(ask, stub):
    for path in ("/v1/scheduler/status", "/v1/breakers", "/v1/tasks", "/v1/dlq"):
        stub.on("GET", path, {})
    stub.on("GET", "/v1/stats", {"points": [{"completed": 600, "failed": 3, "delay_seconds": {"p50": 0.001, "p99": 0.25}, "backlog": 2}]})
    assert "Last 5 min: 600 completed (2.0 a second), 3 failed, delay p50 0.001 s, p99 0.250 s, backlog 2\n" in ask("status").out


def test_next_takes_an_interval(belfry):
    assert belfry("next", "5m", "--from", "2026-01-01T00:00:00Z", "-n", "2").lines == belfry(
        "next", "--every", "5m", "--from", "2026-01-01T00:00:00Z", "-n", "2").lines != []
    assert belfry("next", "5").code == 2


def job(state, done, **more):
    return {"id": ID, "state": state, "reason": None, "done": done, "failed": 0, "failures": [], "total": 45, "total_exact": True, **more}


def test_an_action_by_filter_is_a_job_that_is_followed(ask, stub):
    answers = iter([job("RUNNING", 20), job("DONE", 45)])
    stub.on("POST", "/v1/tasks/bulk", (202, job("RUNNING", 0)))
    stub.on("GET", f"/v1/jobs/{ID}", lambda request: next(answers))
    done = ask("pause", "--filter", "status=scheduled,queue=mail", "--filter", "due_before=2026-02-10T08:00:00Z")
    assert (done.code, done.out, done.err) == (0, "45 paused\n", "")
    assert stub.requests[0].body == {"action": "pause", "filter": {"status": "SCHEDULED", "queue": "mail",
                                                                   "due_before": "2026-02-10T08:00:00.000Z"}}
    assert [r.method for r in stub.requests] == ["POST", "GET", "GET"]


def test_what_a_job_could_not_do_is_listed(ask, stub):
    failures = [{"task_id": OTHER, "error": "the task is COMPLETED and cannot be cancelled"}]
    stub.on("POST", "/v1/tasks/bulk", (202, job("DONE", 3, failed=2, failures=failures)))
    done = ask("cancel", "--filter", "name=x")
    assert (done.code, done.lines) == (1, ["3 cancelled, 2 refused:", f"  {OTHER}: the task is COMPLETED and cannot be cancelled", "  and 1 more"])


def test_long_work_shows_how_far_it_is(build, stub):
    """Progress goes to stderr, and only where a person sees it."""
    stub.on("POST", "/v1/tasks/bulk", (202, job("RUNNING", 20)))
    stub.on("GET", f"/v1/jobs/{ID}", job("DONE", 45))
    master, slave = pty.openpty()
    done = subprocess.run([build / "belfry", "pause", "--filter", "queue=q", "--server", stub.url, "--key", KEY],
                          stdout=subprocess.PIPE, stderr=slave, timeout=20, check=False)
    os.close(slave)
    chunks = []
    read_terminal(master, chunks)  # all: the kernel hands it over in parts
    os.close(master)
    told = b"".join(chunks)
    assert (done.returncode, done.stdout) == (0, b"45 paused\n")
    assert told == b"\r\x1b[K20 of 45\r\x1b[K"


def test_a_filter_that_finds_nothing_is_no_failure(ask, stub):
    stub.on("POST", "/v1/tasks/bulk", (202, job("DONE", 0)))
    done = ask("cancel", "--filter", "name=x")
    assert (done.code, done.out) == (0, "0 cancelled\n")


def test_an_action_stops_when_the_server_goes_away(ask, stub):
    stub.on("POST", f"/v1/tasks/{ID}/pause", task())
    stub.on("POST", f"/v1/tasks/{OTHER}/pause", DROP)
    done = ask("pause", ID, OTHER, ID, ID)
    assert done.code == 3 and done.out == "1 paused, 3 not reached\n" and "cannot reach" in done.err


@pytest.mark.parametrize("args, sentence", [
    (["--filter", ""], "--filter is empty: write it as status=PAUSED,queue=mail"),
    (["--filter", "status"], "--filter contains 'status', but must be name=value pairs such as status=PAUSED,queue=mail"),
    (["--filter", "queue=a,,"], "--filter contains '', but must be name=value pairs such as status=PAUSED,queue=mail"),
    (["--filter", "statsu=FAILED"], "--filter has no filter 'statsu'; did you mean 'status'?"),
    (["--filter", "status=x"], "--filter status must be one of SCHEDULED, "),
    (["--filter", "queue=a,queue=b"], "--filter contains 'queue' twice"),
    (["--filter", "queue=a", ID], "--filter and ids exclude each other; give only one of them"),
])
def test_wrong_filters_are_wrong_usage(ask, stub, args, sentence):
    done = ask("rm", *args)
    assert done.code == 2 and done.err.startswith(f"belfry rm: {sentence}")
    assert not stub.requests


def test_run_may_force(ask, stub):
    stub.on("POST", f"/v1/tasks/{ID}/run-now", task())
    assert ask("run", "--force", ID).code == 0
    assert stub.requests[0].body == {"force": True}
    assert ask("pause", "--force", ID).code == 2


# ---- around ----


@pytest.mark.parametrize("command", API_COMMANDS)
def test_help_teaches_with_examples_that_parse(belfry, build, command):
    """Each example is taken by the binary: it gets as far as finding nobody at the other end."""
    text = belfry(command, "--help").out
    examples = re.findall(rf"^  belfry ({command} .*|{command})$", text, re.M)
    assert examples
    for example in examples:
        words = shlex.split(example.split(" | ")[0])
        if any(w.startswith("@") for w in words):
            continue
        done = belfry(*words, "--server", "http://127.0.0.1:1", env={"BELFRY_KEY": "bf_x"})
        assert done.code == 3, (example, done)


def test_common_options_are_taken_everywhere(belfry):
    for args in (["version"], ["next", "@daily"], ["help"], ["completion", "bash"]):
        assert belfry(*args, "--server", "http://x", "--key", "k", "--data-dir", "/d", "--json").code == 0


def test_options_of_new_commands_complete(belfry):
    def complete(*words):
        return [line.split("\t")[0] for line in belfry("__complete", "--", *words).lines]
    assert complete("list", "--status", "P") == ["PAUSED", "PENDING"]
    assert complete("add", "--tz", "Europe/Ber") == ["Europe/Berlin"]
    assert complete("add", "--max") == ["--max-runs", "--max-attempts"]
    assert complete("edit", "--set", "retry.b") == ["retry.backoff=", "retry.base_delay_ms="]
    assert complete("edit", "--if") == ["--if-version"]
    assert complete("pause", "--") == ["--filter", "--reason", "--until", "--json", "--server", "--key", "--ca", "--cert", "--cert-key", "--data-dir", "--help"]
