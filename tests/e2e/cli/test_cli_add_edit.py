"""belfry add and edit against a server that follows a script: what they send for their options, and what they print."""

import functools
import json
import re

import pytest

from conftest import ROOT
from stub_server import problem
from test_cli_client import ID, ask, instant, shown, stub, task  # pylint: disable=unused-import


# ---- add ----


HTTP = {"target_type": "HTTP_CALLBACK"}
NOOP = {"target_type": "NOOP"}
FORM = {"headers": {"Content-Type": "application/x-www-form-urlencoded"}}
URL = "https://example.com/x"


@pytest.mark.parametrize("args, body", [
    (["--noop"], NOOP),
    ([URL], {**HTTP, "target_config": {"url": URL}}),
    (["--at", "2026-02-10T09:00:00+01:00", "--noop"], {**NOOP, "run_at": "2026-02-10T08:00:00.000Z"}),
    (["--in", "1h30m", "--noop"], {**NOOP, "delay": "1h30m"}),
    (["--every", "5m", "--noop"], {**NOOP, "interval_seconds": 300}),
    (["--every", "1500ms", "--spread", "1ms", "--noop"], {**NOOP, "interval_seconds": 1.5, "spread_seconds": 0.001}),
    (["--cron", "0 8 * * *", "--tz", "Europe/Berlin", "--noop"],
     {**NOOP, "cron_expression": "0 8 * * *", "time_zone": "Europe/Berlin"}),
    (["--every", "1m", "--start", "2026-01-01T00:00:00Z", "--end", "2027-01-01T00:00:00Z", "--max-runs", "7",
      "--spread", "30s", "--catch-up", "all", "--noop"],
     {**NOOP, "interval_seconds": 60, "start_time": "2026-01-01T00:00:00.000Z", "end_date": "2027-01-01T00:00:00.000Z",
      "max_runs": 7, "spread_seconds": 30, "catch_up_mode": "RUN_ALL_MISSED"}),
    (["--name", "Täglich \"x\"", "--queue", "mail", "--priority", "9", "--type", "report.daily", "--timeout", "2s",
      "--max-attempts", "3", "--expires", "10m", "--delivery", "at-most-once", "--noop"],
     {**NOOP, "name": "Täglich \"x\"", "queue": "mail", "priority": 9, "task_type": "report.daily", "timeout_ms": 2000,
      "retry": {"max_attempts": 3}, "expires_after_seconds": 600, "delivery": "AT_MOST_ONCE"}),
    (["--cron", "@hourly", "--calendar", "de-holidays", "--calendar-policy", "next-day", "--overlap", "cancel-previous", "--noop"],
     {**NOOP, "cron_expression": "@hourly", "calendar": "de-holidays", "calendar_policy": "NEXT_DAY",
      "overlap_policy": "CANCEL_PREVIOUS"}),
    (["--concurrency-key", "customer 42", "--concurrency-limit", "3", "--dedupe-key", "order-1", "--dedupe-window", "1d",
      "--dedupe-action", "reschedule", "--noop"],
     {**NOOP, "concurrency_key": "customer 42", "concurrency_limit": 3, "dedupe_key": "order-1", "dedupe_window_seconds": 86400,
      "dedupe_action": "RESCHEDULE"}),
    (["--cron", "@hourly", "--dst-gap", "skip", "--dst-overlap", "both", "--catch-up-window", "2h", "--noop"],
     {**NOOP, "cron_expression": "@hourly", "dst_policy": {"gap": "SKIP", "overlap": "BOTH"}, "catch_up_window_seconds": 7200}),
    (["--max-attempts", "3", "--backoff", "fixed", "--retry-delay", "5s", "--retry-max-delay", "1m", "--jitter", "none", "--noop"],
     {**NOOP, "retry": {"max_attempts": 3, "backoff": "FIXED", "base_delay_ms": 5000, "max_delay_ms": 60000, "jitter": "NONE"}}),
    (["--max-attempts", "3", "--set", 'retry.rules=[{"on": ["503"]}]', "--set", "metadata={}", "--set", "task_type=a.b", "--noop"],
     {**NOOP, "retry": {"max_attempts": 3, "rules": [{"on": ["503"]}]}, "metadata": {}, "task_type": "a.b"}),
    ([URL, "--set", "target_config.timeout_ms=5000"], {**HTTP, "target_config": {"url": URL, "timeout_ms": 5000}}),
    (["--cron", "@hourly", "--expect-success-by", "06:00", "--expect-days", "MON-FRI", "--notify", "ops", "--notify", "dev", "--noop"],
     {**NOOP, "cron_expression": "@hourly", "expect": {"success_by": "06:00", "days": "MON-FRI"}, "notify": ["ops", "dev"]}),
    (["--expect-within", "2h", "--notify", "", "--noop"], {**NOOP, "expect": {"within_seconds": 7200}, "notify": []}),
    (["--set", "target_type=NOOP"], NOOP),
    (["--set", f"payload.webhook_url={URL}"], {"payload": {"webhook_url": URL}}),
    ([URL, "-X", "PUT", "-H", "X-Team: a", "-H", "X-Empty:", "-H", "X-Colon:a:b"],
     {**HTTP, "target_config": {"url": URL, "method": "PUT", "headers": {"X-Team": "a", "X-Empty": "", "X-Colon": "a:b"}}}),
    ([URL, "-d", '{"a": [1, 2.50]}'], {**HTTP, "target_config": {"url": URL, "body": {"a": [1, 2.5]}}}),
    ([URL, "-d", "plain text"], {**HTTP, "target_config": {"url": URL, "body": "plain text", **FORM}}),
    ([URL, "-d", "x=1&y=2", "-H", "X-A: 1"],
     {**HTTP, "target_config": {"url": URL, "body": "x=1&y=2", "headers": {"X-A": "1", **FORM["headers"]}}}),
    ([URL, "-d", "x=1\n"], {**HTTP, "target_config": {"url": URL, "body": "x=1\n", **FORM}}),
    ([URL, "-d", "{broken", "-H", "Content-Type: text/plain"],
     {**HTTP, "target_config": {"url": URL, "body": "{broken", "headers": {"Content-Type": "text/plain"}}}),
    ([URL, "-d", "[alert] disk is full"], {**HTTP, "target_config": {"url": URL, "body": "[alert] disk is full", **FORM}}),
    ([URL, "-d", "a=1", "-d", "b=2"], {**HTTP, "target_config": {"url": URL, "body": "a=1&b=2", **FORM}}),
    ([URL, "-d", "", "-d", "1", "-d", "2"], {**HTTP, "target_config": {"url": URL, "body": "1&2", **FORM}}),
    ([URL, "-d", "42"], {**HTTP, "target_config": {"url": URL, "body": "42", **FORM}}),
    ([URL, "-d", '"quoted"'], {**HTTP, "target_config": {"url": URL, "body": '"quoted"', **FORM}}),
    ([URL, "-d", ""], {**HTTP, "target_config": {"url": URL, "body": "", **FORM}}),
    ([URL, "-d", "a,b", "-H", "content-type: text/csv"],
     {**HTTP, "target_config": {"url": URL, "body": "a,b", "headers": {"content-type": "text/csv"}}}),
    ([URL, "-d", "a,b", "--set", "target_config.headers.Content-Type=text/csv"],
     {**HTTP, "target_config": {"url": URL, "body": "a,b", "headers": {"Content-Type": "text/csv"}}}),
    ([URL, "--set", "target_config.body=x=1"], {**HTTP, "target_config": {"url": URL, "body": "x=1"}}),
    (["--target", "WORKER", "-d", "42"], {"target_type": "WORKER", "payload": 42}),
    (["--message", "b", "--destination", "d", "-d", "x=1"],
     {"target_type": "QUEUE_MESSAGE", "target_config": {"broker": "b", "destination": "d", "body": "x=1"}}),
])
def test_add_sends(ask, stub, args, body):
    stub.on("POST", "/v1/tasks", (201, task()))
    done = ask("add", *args)
    assert (done.code, done.err) == (0, "")
    assert [r.body for r in stub.requests if r.method == "POST"] == [body]


def fields_of(schema, schemas, path=""):
    """The paths of all fields: of an object with properties, theirs, also if it may be null instead."""
    choices = [choice for choice in schema.get("anyOf", [schema]) if choice.get("type") != "null"]
    schema = choices[0] if len(choices) == 1 else schema
    schema = schemas[schema["$ref"].split("/")[-1]] if "$ref" in schema else schema
    if "properties" not in schema:
        return [path]
    return [leaf for name, inner in schema["properties"].items() for leaf in fields_of(inner, schemas, f"{path}.{name}" if path else name)]


def test_every_field_of_the_api_can_be_given(ask, belfry, stub):
    """A field of /openapi.json has a flag of add and edit, or is one of those that --set is offered for, and --set sends it."""
    schemas = json.loads((ROOT / "src/api/server/openapi.json").read_text())["components"]["schemas"]
    fields = fields_of(schemas["NewTask"], schemas)
    assert len(fields) > 40
    stub.on("POST", "/v1/tasks", (201, task()))
    stub.on("PATCH", ".*", task())
    stub.on("GET", ".*", task())
    sent = [f for f in fields if f != "idempotency_key"]  # a flag alone: it is a header
    sets = [word for f in sent for word in ("--set", f"{f}=null")]
    for args in (["add"], ["edit", ID]):
        offered = dict(line.split("\t") for line in belfry("__complete", "--", args[0], "--set", "").lines)
        assert not {f"{f}=" for f in fields} - set(offered), "give it a row in src/cli/task_body.c"
        assert offered["idempotency_key="] == "the same as --idempotency-key" and offered["priority="] == "the same as --priority"
        done = ask(*args, *sets)
        assert done.code == 0, done
        body = [r for r in stub.requests if r.method != "GET"][-1].body
        for field in sent:
            assert functools.reduce(lambda o, name: o[name], field.split("."), body) is None, field


def test_the_idempotency_key_may_be_chosen(ask, stub):
    stub.on("POST", "/v1/tasks", (201, task()))
    stub.on("PATCH", ".*", task())
    assert ask("add", "--noop", "--quiet", "--idempotency-key", "order 42").code == 0
    assert ask("edit", ID, "--name", "x", "--idempotency-key", "order-43").code == 0
    assert [r.headers["Idempotency-Key"] for r in stub.writes] == ["order 42", "order-43"]
    for key in ("", "a\nX-Evil: 1", "ü", "x" * 256):
        done = ask("add", "--noop", "--idempotency-key", key)
        assert (done.code, done.err) == (2, "belfry add: --idempotency-key must be 1 to 255 printable ASCII characters\n")


def test_set_reads_files_and_keeps_what_an_edit_does_not_name(ask, stub, tmp_path):
    stub.on("GET", f"/v1/tasks/{ID}", b'{"version": 7, "metadata": {"a": 1.50}, "target_config": {"url": "https://a", "timeout_ms": 5}}')
    stub.on("PATCH", f"/v1/tasks/{ID}", task())
    (tmp_path / "b").write_text('["ü"]')
    assert ask("edit", ID, "--set", f"metadata.b=@{tmp_path}/b", "--set", "target_config.timeout_ms=6", "-X", "GET").code == 0
    assert stub.writes[-1].body == {"metadata": {"a": 1.5, "b": ["ü"]}, "target_config": {"timeout_ms": 6, "method": "GET"}}
    assert stub.writes[-1].headers["If-Match"] == '"7"'
    assert ask("edit", ID, "--set", "metadata={}").code == 0
    assert stub.writes[-1].body == {"metadata": {}} and "If-Match" not in stub.writes[-1].headers


@pytest.mark.parametrize("given, content, body", [
    ("@{file}", b'{"a": 1}\n', {"a": 1}), ("@{file}", b"x=1\r\n&y=2\n", "x=1&y=2"), ("@{file}", b"", ""),
])
def test_add_reads_the_body_from_a_file(ask, stub, tmp_path, given, content, body):
    stub.on("POST", "/v1/tasks", (201, task()))
    (tmp_path / "body").write_bytes(content)
    assert ask("add", URL, "-d", given.format(file=tmp_path / "body")).code == 0
    assert stub.requests[0].body["target_config"]["body"] == body


def test_add_joins_texts_and_files_as_curl_does(ask, stub, tmp_path):
    stub.on("POST", "/v1/tasks", (201, task()))
    (tmp_path / "body").write_bytes(b"b=2\n&c=3\r\n")
    assert ask("add", URL, "-d", "a=1\n", "-d", f"@{tmp_path}/body", "-d", "@-", stdin="d=4\n").code == 0
    assert stub.requests[0].body["target_config"] == {"url": URL, "body": "a=1\n&b=2&c=3&d=4", **FORM}


NOT_JSON = "; correct it, or send it as text: with a header such as -H 'Content-Type: text/plain', " \
    "or with --set target_config.body=@FILE in place of -d\n"


@pytest.mark.parametrize("data, reason", [
    ('{"a":12345678901234567890}', r"'a' has a number that is too large \(line 1, column \d+\)"),
    ('{"b": [1e400]}', r"'b\[0\]' has a number that is too large \(line 1, column \d+\)"),
    ('{"a":1,"a":2}', r"'a' is given twice \(line 1, column \d+\)"), ('{"a":"\\ud800"}', r".*\(line 1, column \d+\)"),
    ("[" * 40 + "]" * 40, r"is nested more than 32 levels deep"), (" {user: 42}", r"is not valid JSON: .*\(line 1, column \d+\)"),
    ("[1, 2", r"'\[1\]' is not valid JSON: .*\(line 1, column \d+\)"), ("[]]", r"is not valid JSON: .*\(line 1, column \d+\)"),
])
def test_data_that_begins_like_json_and_is_not_is_no_form(ask, stub, tmp_path, data, reason):
    (tmp_path / "body").write_text(data)
    for given in (data, f"@{tmp_path}/body"):
        done = ask("add", URL, "-d", given)
        assert done.code == 2 and re.fullmatch("belfry add: --data begins like JSON, but " + reason + re.escape(NOT_JSON), done.err), done
    assert not stub.requests
    stub.on("GET", f"/v1/tasks/{ID}", task(target_type="HTTP_CALLBACK", target_config={"url": URL, "body": "a=1", **FORM}))
    done = ask("edit", ID, "-d", data)
    assert done.code == 2 and done.err.endswith(NOT_JSON), done
    assert [r.method for r in stub.requests] == ["GET"]


@pytest.mark.parametrize("dash", ["-", "@-"])
def test_add_reads_the_body_from_stdin(ask, stub, dash):
    stub.on("POST", "/v1/tasks", (201, task()))
    assert ask("add", URL, "-d", dash, stdin='["ü"]').code == 0
    assert stub.requests[0].body["target_config"]["body"] == ["ü"]


def test_add_keeps_the_line_breaks_of_a_file_with_set_and_of_a_message(ask, stub, tmp_path):
    stub.on("POST", "/v1/tasks", (201, task()))
    (tmp_path / "body").write_bytes(b"a\nb\n")
    for args in ([URL, "--set", f"target_config.body=@{tmp_path}/body"], ["--message", "b", "--destination", "d", "-d", f"@{tmp_path}/body"]):
        assert ask("add", *args).code == 0
        assert [r.body for r in stub.requests if r.method == "POST"][-1]["target_config"]["body"] == "a\nb\n"


def test_add_keeps_numbers_as_they_were_written(ask, stub):
    stub.on("POST", "/v1/tasks", (201, task()))
    ask("add", URL, "-d", '{"big": 12345678901234567}')
    assert stub.requests[0].body["target_config"]["body"]["big"] == 12345678901234567


@pytest.mark.parametrize("args, sentence", [
    ([], "a URL to call is missing (--noop: call nothing)"),
    ([URL, "https://other"], "takes one URL, but got another: 'https://other'"),
    (["--noop", URL], "--noop calls nothing, so it takes no URL and no --message"),
    (["--noop", "-d", "x"], "--noop calls nothing, so it takes no -X, -H or -d"),
    (["--noop", "--in", "5m", "--cron", "* * * * *"], "--cron and --in exclude each other; give only one of them"),
    (["--noop", "--at", "2026-02-10T08:00:00Z", "--every", "5m"], "--every and --at exclude each other; give only one of them"),
    ([URL, "-H", "no colon"], "--header must have the form 'Name: value', but is 'no colon'"),
    ([URL, "-H", ": x"], "--header must have the form 'Name: value', but is ': x'"),
    ([URL, "-d", "@/nonexistent"], "--data cannot be read from /nonexistent: No such file or directory"),
    ([URL, "-d", "@/"], "--data cannot be read from /: Is a directory"),
    ([URL, "-d", b"\xff"], "--data is neither JSON nor UTF-8 text"),
    ([URL, "-d", "@/dev/zero"], "--data /dev/zero is longer than 16777216 bytes"),
    ([URL, "-d", "{}", "-d", "a=1"], "--data is a JSON object or array, so it can be given only once"),
    ([URL, "-d", "a=1", "-d", "[1]"], "--data is a JSON object or array, so it can be given only once"),
    (["--target", "WORKER", "-d", "1", "-d", "2"],
     "--data can be given only once, unless the task calls a URL; a webhook gets all of them, joined by &"),
    (["--noop", "--set", "priority"], "--set must have the form FIELD=JSON, but is 'priority'"),
    (["--noop", "--set", "a b=1"], "--set 'a b' is not the name of a field, such as priority or retry.backoff"),
    (["--noop", "--priority", "3", "--set", "priority=4"], "--set gives priority a second time"),
    (["--noop", "--max-attempts", "3", "--set", "retry={}"], "--set gives retry a second time"),
    (["--noop", "--set", "name=a", "--set", "name=b"], "--set gives name a second time"),
    (["--noop", "--set", "idempotency_key=x"], "--set cannot give idempotency_key; use --idempotency-key"),
    (["--noop", "--set", "metadata=@/nonexistent"], "--set cannot be read from /nonexistent: No such file or directory"),
])
def test_add_refuses_wrong_usage(ask, stub, args, sentence):
    done = ask("add", *args)
    assert (done.code, done.out, done.err) == (2, "", f"belfry add: {sentence}\n")
    assert not stub.requests


def test_options_of_add_are_judged(ask):
    for args in (["--at", "tomorrow"], ["--in", "5"], ["--priority", "10"], ["--max-attempts", "0"], ["--catch-up", "x"], ["--name", b"a\xff\xfeb"]):
        done = ask("add", "--noop", *args)
        assert done.code == 2 and done.err.startswith(f"belfry add: {args[0]} "), done


def test_add_prints_id_and_next_fire(ask, stub):
    at = instant(hours=10)
    stub.on("POST", "/v1/tasks", (201, task(next_execution=at)))
    assert ask("add", "--noop").out == f"{ID}\nFires in 10h: {shown(at)}\n"
    assert ask("add", "--noop", "-q").out == f"{ID}\n"
    assert json.loads(ask("add", "--noop", "--json").out) == task(next_execution=at)


def test_add_explains_a_cron_expression(ask, stub):
    stub.on("POST", "/v1/tasks", (201, task(cron_expression="0 8 * * MON-FRI", time_zone="Europe/Berlin",
                                            next_execution="2020-02-10T07:00:00.000Z")))
    lines = ask("add", "--noop").lines
    assert lines[:2] == [ID, "At 08:00 on Monday through Friday, Europe/Berlin"]
    assert re.fullmatch(r"Was due \d+d ago: Mon 2020-02-10 08:00:00 CET \(2020-02-10 07:00:00Z\)", lines[2])
    stub.rules.clear()
    stub.on("POST", "/v1/tasks", (201, task(cron_expression="0 8 * * *", time_zone="UTC",
                                            next_execution="2020-02-10T08:00:00.000Z")))
    lines = ask("add", "--noop").lines
    assert lines[1] == "At 08:00 every day, UTC" and lines[2].endswith("ago: 2020-02-10 08:00:00Z")


# ---- edit ----


def test_edit_sends_what_is_named(ask, stub):
    at = instant(hours=2)
    stub.on("PATCH", f"/v1/tasks/{ID}", task(version=4, next_execution=at))
    done = ask("edit", ID, "--cron", "0 9 * * *", "--name", "", "--priority", "0")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{ID} is now version 4\nFires in 2h: {shown(at)}\n"
    [r] = stub.writes
    assert r.body == {"cron_expression": "0 9 * * *", "name": None, "priority": 0}
    assert "If-Match" not in r.headers and "Idempotency-Key" in r.headers
    ask("edit", ID.upper(), "--in", "5m", "--if-version", "3")
    assert stub.writes[-1].headers["If-Match"] == '"3"' and stub.writes[-1].body == {"delay": "5m"}
    assert json.loads(ask("edit", ID, "--in", "5m", "--json").out)["version"] == 4


def test_edit_sends_only_the_parts_of_the_target_that_are_named(ask, stub):
    stub.on("PATCH", f"/v1/tasks/{ID}", task())
    assert ask("edit", ID, "-X", "PUT").code == 0
    assert stub.writes[-1].body == {"target_config": {"method": "PUT"}}
    assert "If-Match" not in stub.writes[-1].headers
    stub.on("GET", f"/v1/tasks/{ID}", b'{"version": 7, "target_config": {"url":"https://a", "headers": {"X-A": "1"}}}')
    ask("edit", ID, "--url", "https://b", "-H", "X-B: 2", "-d", "[1]", "--if-version", "6", "--name", "n")
    assert stub.writes[-1].body == {"name": "n", "target_config": {"url": "https://b", "headers": {"X-B": "2"}, "body": [1]}}
    assert stub.writes[-1].headers["If-Match"] == '"6"'
    assert ask("edit", ID, "--set", "target_config.headers.X-A=null").code == 0
    assert stub.writes[-1].body == {"target_config": {"url": "https://a", "headers": {"X-A": None}}}


@pytest.mark.parametrize("now, sent", [
    ({"target_type": "HTTP_CALLBACK", "target_config": {"url": URL, "body": {}}}, {"body": "42", **FORM}),
    ({"target_type": "HTTP_CALLBACK", "target_config": {"url": URL, "headers": {"content-type": "text/csv"}}}, {"body": "42"}),
    ({"target_type": "QUEUE_MESSAGE", "target_config": {"broker": "b"}}, {"body": 42}),
])
def test_edit_gives_data_the_type_of_curl_unless_the_task_has_one(ask, stub, now, sent):
    stub.on("GET", f"/v1/tasks/{ID}", task(version=7, **now))
    stub.on("PATCH", f"/v1/tasks/{ID}", task(version=8))
    assert ask("edit", ID, "-d", "42").code == 0
    assert (stub.writes[-1].method, stub.writes[-1].body) == ("PATCH", {"target_config": sent})
    assert stub.writes[-1].headers["If-Match"] == '"7"'


@pytest.mark.parametrize("before, args, sent", [
    ({"body": "a=1", **FORM}, ["-d", '{"a": 1}'], {"body": {"a": 1}, "headers": {"Content-Type": None}}),
    ({"body": "a=1", "headers": {"content-type": FORM["headers"]["Content-Type"], "X-A": "1"}}, ["-d", "[]"],
     {"body": [], "headers": {"content-type": None}}),
    ({"body": "a=1", **FORM}, ["-d", "{}", "-H", "X-B: 2"], {"body": {}, "headers": {"X-B": "2", "Content-Type": None}}),
    ({"body": "a=1", **FORM}, ["-d", "{}", "-H", "Content-Type: a/b"], {"body": {}, "headers": {"Content-Type": "a/b"}}),
    ({"body": "a=1", **FORM}, ["-d", "b=2", "-d", "c=3"], {"body": "b=2&c=3"}),
    ({"body": {"a": 1}, **FORM}, ["-d", "{}"], {"body": {}}),  # as `import crontab` makes it
    ({"body": "a", "headers": {"Content-Type": "text/plain"}}, ["-d", "{}"], {"body": {}}),
])
def test_json_in_place_of_form_data_does_not_keep_its_type(ask, stub, before, args, sent):
    stub.on("GET", f"/v1/tasks/{ID}", task(version=7, target_type="HTTP_CALLBACK", target_config={"url": URL, **before}))
    stub.on("PATCH", f"/v1/tasks/{ID}", task(version=8))
    assert ask("edit", ID, *args).code == 0
    assert (stub.writes[-1].method, stub.writes[-1].body) == ("PATCH", {"target_config": sent})


def test_edit_has_no_options_that_only_a_create_takes(belfry):
    flags = [set(re.findall(r"--[a-z-]+", re.sub(r"\n {10,}.*", "", belfry(command, "--help").out))) for command in ("add", "edit")]
    only = {"--after", "--join", "--dedupe-key", "--dedupe-window", "--dedupe-action", "--dedupe-max-wait"}
    assert only <= flags[0] and not only & flags[1] and "--delivery" in flags[1]
    assert "POST and DELETE /v1/tasks/{id}/dependencies" in belfry("edit", "--help").out
    done = belfry("edit", ID, "--dedupe-window", "1h")
    assert done.code == 2 and "--dedupe-window" in done.err


def test_edit_refuses_to_change_nothing(ask, stub):
    done = ask("edit", ID)
    assert (done.code, done.err) == (2, "belfry edit: nothing to change: give at least one option\n")
    assert ask("edit", ID, "--in", "5m", "--every", "5m").code == 2
    assert ask("edit", ID, "-H", "x").code == 2
    assert ask("edit", ID, "-X", "PUT", "--set", "target_config.method=GET").code == 2
    assert not stub.requests


def test_edit_of_a_changed_task_is_refused(ask, stub):
    stub.on("PATCH", f"/v1/tasks/{ID}", problem(412, "is at version 5, not 3"))
    done = ask("edit", ID, "--name", "x", "--if-version", "3")
    assert (done.code, done.err) == (1, f"belfry edit: {ID}: is at version 5, not 3\n")
