"""What JSON Schema cannot say about valid requests, so that schemathesis can make some.

The formats of /openapi.json that are Belfry's own get values here. Rules between fields, which the description has in words, are applied to
each request that is meant to be valid; a request that is meant to be refused is left alone."""

import datetime
import itertools

import schemathesis
from hypothesis import strategies as st

SINK = "http://127.0.0.1:9/"  # the discard port of this machine: tasks that run go nowhere
NOBODY = "00000000-0000-7000-8000-000000000000"
instants = st.datetimes(datetime.datetime(2100, 1, 1), datetime.datetime(2190, 1, 1))

FORMATS = {
    "cron": st.sampled_from(["0 8 * * *", "*/5 * * * *", "30 2 1 * MON", "0 0 8 * * *", "H H * * *", "@daily", "0 0 29 2 *"]),
    "time-zone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]),
    "duration-text": st.sampled_from(["1s", "90s", "15m", "1h30m", "7d", "1w2d3h4m5s6ms"]),
    "calendar-name": st.just("holidays"),
    "workflow-name": st.just("flow"),
    "reference": st.sampled_from(["/input", "/input/a~1b/0", "/run/id"]),
    "tenant-name": st.just("default"),
    "broker": st.sampled_from(["orders", "redis://127.0.0.1:9", "amqp://127.0.0.1:9/x", "kafka://127.0.0.1:9,127.0.0.1:10"]),
    "http-url": st.sampled_from([SINK, SINK + "a?b=c", "https://127.0.0.1:9/"]),
    "header-name": st.sampled_from(["X-Team", "Accept", "X-Trace_1"]),
    "cron-days": st.sampled_from(["MON-FRI", "SUN", "1,3", "*"]),
    "etag": st.sampled_from(['"1"', '"2"', "*"]),
    "cursor": st.just(NOBODY),
    "icalendar": st.just("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nEND:VCALENDAR\r\n"),
    "date-time": instants.map(lambda t: t.isoformat(timespec="milliseconds") + "Z"),
}
for name, values in FORMATS.items():
    schemathesis.openapi.format(name, values)


class Between:
    """The numbers from least to most, for `in`."""

    def __init__(self, least, most):
        self.least, self.most = least, most

    def __contains__(self, value):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and self.least <= value <= self.most


@schemathesis.serializer("application/x-ndjson")
def ndjson(context, value):  # pylint: disable=unused-argument
    """Only text has lines. Anything else is sent as no line at all."""
    return value.encode(errors="ignore") if isinstance(value, str) else b""


ONE_TIME = ["run_at", "scheduled_at", "delay"]
RECURRING = ["cron_expression", "interval_seconds", "time_zone", "calendar", "calendar_policy", "dst_policy", "start_time", "end_date", "max_runs",
             "catch_up_mode", "catch_up_window_seconds", "overlap_policy"]
WAITS = Between(0, 60)
NUMBERS = itertools.count()
NEEDS = {"calendar_policy": "calendar", "concurrency_limit": "concurrency_key", "dedupe_window_seconds": "dedupe_key",
         "dedupe_action": "dedupe_key"}
NOT_FOR_RUNS = ["payload", "timeout_ms", "requires", "resources"]
NOT_FOR_AWAIT = [*NOT_FOR_RUNS, "retry", "max_retries", "delivery", "concurrency_key", "concurrency_limit"]


def drop(body, *names):
    for name in names:
        body.pop(name, None)


def keep_one(body, *names):
    drop(body, *[name for name in names if body.get(name) is not None][1:])


def agree_on_time(body):
    keep_one(body, "cron_expression", "interval_seconds")
    recurring = bool(body.get("cron_expression") or body.get("interval_seconds"))
    drop(body, *(ONE_TIME if recurring else RECURRING))
    keep_one(body, *ONE_TIME)
    if not body.get("cron_expression"):
        drop(body, "dst_policy")
    if body.get("end_date"):
        drop(body, "start_time")
        body["end_date"] = "2199-01-01T00:00:00Z"
    if body.get("type") in ("ONE_TIME", "RECURRING"):
        body["type"] = "RECURRING" if recurring else "ONE_TIME"
    elif body.get("type"):
        drop(body, "task_type")
    if recurring and body.get("dedupe_action"):
        body["dedupe_action"] = "RETURN"


def agree_on_target(body):
    kind, config = body.get("target_type"), body.get("target_config") or {}
    if kind is None:
        kind = "HTTP_CALLBACK" if "url" in config else "NOOP"
    if kind == "HTTP_CALLBACK":
        config = config if "127.0.0.1" in config.get("url", "") else {**config, "url": SINK}
        drop(config, "broker", "destination", "key")
        if config.get("method") == "HEAD":
            drop(config, "body")
    elif kind == "QUEUE_MESSAGE":
        config = {**config, "broker": "redis://127.0.0.1:9", "destination": config.get("destination") or "d"}
        drop(config, "url", "method")
    elif kind == "WORKFLOW":
        config = {**config, "workflow": "flow"}
        drop(config, "definition", "version")
        drop(body, *NOT_FOR_RUNS)
    else:
        config = {}
    body["target_type"], body["target_config"] = kind, config
    if kind != "WORKER":
        drop(body, "requires", "resources")  # one node has no workers to choose from


def agree_on_retry(body):
    retry = body.get("retry") or {}
    if retry.get("max_attempts") is not None:
        drop(body, "max_retries")
    if retry.get("max_delay_ms") is not None:
        retry["max_delay_ms"] = max(retry["max_delay_ms"], retry.get("base_delay_ms") or 1000)


def agree_on_needs(body):
    for name, needed in NEEDS.items():
        if not body.get(needed):
            drop(body, name)


def plain(value):
    """Free JSON of a definition without names that begin with $, which are its own."""
    if isinstance(value, dict):
        return {name.lstrip("$") if name.startswith("$") else name: plain(member) for name, member in value.items()}
    return [plain(element) for element in value] if isinstance(value, list) else value


def agree_on_items(over):
    """The items of a map are a list, also by default."""
    if isinstance(over, list):
        return plain(over)
    return {"$ref": over["$ref"], "default": []} if "$ref" in over else {"$literal": [over["$literal"]]}


def agree_on_call(fields):
    """What a step calls, or its compensation. The step may have references where a task has none."""
    config = fields.get("target_config") or {}
    for name, value in (config.get("headers") or {}).items():
        if isinstance(value, dict):  # what a reference may name depends on the step
            config["headers"][name] = {"$join": ["a", 1, {"$ref": "/input"}]} if "$join" in value else {"$ref": "/input", "default": ""}
    for free, name in ((fields, "payload"), (config, "body"), (config, "input")):
        if name in free:
            free[name] = plain(free[name])
    if isinstance(config.get("url"), dict):
        config["url"] = {"$join": [SINK, "a", 1]}
    if fields.get("target_type") is None and "url" not in config:
        fields["target_type"] = "NOOP"
    agree_on_target(fields)
    agree_on_retry(fields)
    agree_on_needs(fields)
    short(fields)


def agree_on_step(step, number):
    step["name"] = f"s{number}"
    step["depends_on"] = [f"s{number - 1}"] if number else []
    if not number:
        drop(step, "join")
    if step.get("when"):
        step["when"] = {"ref": "/input", "op": "exists"}
    if step.get("map"):
        step["map"]["over"] = agree_on_items(step["map"]["over"])
    if step.get("await"):
        drop(step, "map", "target_type", "target_config", *NOT_FOR_AWAIT)
        if step["await"].get("timeout"):
            step["await"]["timeout"] = "1s"  # not 0
        else:
            drop(step["await"], "on_timeout")
    else:
        agree_on_call(step)
    if step.get("target_type") == "WORKFLOW" or (step.get("map") or {}).get("max_concurrent"):
        drop(step, "concurrency_key", "concurrency_limit")
    if step.get("compensate") is not None:
        if step["compensate"].get("target_type") is None and "workflow" in (step["compensate"].get("target_config") or {}):
            drop(step["compensate"], "target_config")
        agree_on_call(step["compensate"])


def agree_on_definition(body):
    if "result" in body:
        body["result"] = plain(body["result"])
    for number, step in enumerate(body["steps"]):
        agree_on_step(step, number)


def agree_on_expectation(body, recurring):
    """One kind of deadline. Settings that `notify` could name do not exist."""
    expect = body.get("expect") or {}
    keep_one(expect, *(["success_by", "within_seconds"] if recurring else ["within_seconds"]))
    if not recurring:
        drop(expect, "success_by")
    if not expect.get("success_by"):
        drop(expect, "days")
    drop(body, "notify")


def agree_on_run(body):
    if body.get("definition"):
        drop(body, "workflow", "version")
        agree_on_definition(body["definition"])
    else:
        body["workflow"] = "flow"
        drop(body, "version", "definition")
    agree_on_needs(body)
    keep_one(body, *ONE_TIME)
    if body.get("type") == "RECURRING":
        body["type"] = "ONE_TIME"
    elif body.get("type") not in (None, "ONE_TIME"):
        drop(body, "task_type")
    if body.get("dedupe_action") not in ("RESCHEDULE", "REPLACE"):
        drop(body, "dedupe_max_wait_seconds")
    agree_on_retry(body)
    agree_on_expectation(body, False)
    short(body)
    drop(body, "idempotency_key", "depends_on", "join")  # as of a task


def agree(body, recurring=False):
    """The fields of a task fit together."""
    if recurring and not body.get("cron_expression") and not body.get("interval_seconds"):
        body["interval_seconds"] = 3600
    agree_on_needs(body)
    agree_on_time(body)
    if body.get("dedupe_action") not in ("RESCHEDULE", "REPLACE"):
        drop(body, "dedupe_max_wait_seconds")
    agree_on_target(body)
    agree_on_retry(body)
    agree_on_expectation(body, bool(body.get("cron_expression") or body.get("interval_seconds")))
    short(body)
    drop(body, "idempotency_key")  # the header may have one, too
    drop(body, "depends_on", "join")  # ids of tasks that exist
    return body


def fresh_key(case):
    """Most keys are new. Some are used again, as by a client that had no answer."""
    key = (case.headers or {}).get("Idempotency-Key")
    number = next(NUMBERS)
    if key and number % 4:
        case.headers["Idempotency-Key"] = f"{key[:200]}-{number}"


def small(value):
    """Free JSON without integers of more than 64 bits and names with NUL, which the server does not take."""
    if isinstance(value, dict):
        return {name.replace("\0", ""): small(member) for name, member in value.items()}
    if isinstance(value, list):
        return [small(element) for element in value]
    return value % 2**62 if isinstance(value, int) and not isinstance(value, bool) else value


def short(body):
    """Some texts are limited by their bytes."""
    for name in ("concurrency_key", "dedupe_key"):
        if body.get(name):
            body[name] = body[name].encode()[:200].decode(errors="ignore")


def agree_on_key(body):
    if body.get("expires_at"):
        body["expires_at"] = "2199-01-01T00:00:00Z"


def agree_on_pause(body):
    keep_one(body, "until", "for")
    if body.get("until"):
        body["until"] = "2199-01-01T00:00:00Z"
    if body.get("for"):
        body["for"] = "1h"  # neither 0 nor centuries


def agree_on_dependencies(body):
    """Each task once, whether as an id or within an object."""
    named = {d if isinstance(d, str) else d["task"]: d for d in body["depends_on"] or []}
    body["depends_on"] = list(named.values()) or body["depends_on"]


def agree_on_queue(body):
    if body.get("paused") is not True:
        drop(body, "reason", "until", "for")
    for pause in (body, body.get("paused")):
        if isinstance(pause, dict):
            agree_on_pause(pause)


def agree_on_bulk(body):
    if body.get("action") != "pause":
        drop(body, "reason", "until", "for")
    agree_on_pause(body)


def agree_on_query(case):
    query = case.query or {}
    drop(query, "cursor")  # only one that the same list has returned is good
    if int(query.get("page") or 1) * int(query.get("limit") or 20) > 1_000_000:
        drop(query, "page")
    if query.get("search"):
        drop(query, "page")  # a search has no pages with numbers
    if query.get("wait_seconds"):
        query["wait_seconds"] = 0  # nobody waits here
    if case.operation.definition.raw.get("operationId") == "upcoming" and query.get("to"):
        query["from"], query["to"] = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"
    if case.media_type == "application/json":
        drop(query, "weekends", "time_zone")


FIXES = {"pauseTask": agree_on_pause, "pauseRecurringTask": agree_on_pause, "pauseWorkflow": agree_on_pause,
         "addDependencies": agree_on_dependencies, "bulk": agree_on_bulk,
         "createTask": agree, "preview": agree, "createRecurringTask": lambda b: agree(b, True),
         "createRecurringTaskToo": lambda b: agree(b, True), "putQueue": agree_on_queue, "editQueue": agree_on_queue,
         "createKey": agree_on_key, "editTenant": lambda b: drop(b, "disabled"),
         "putWorkflowDefinition": agree_on_definition, "createWorkflow": agree_on_run}


@schemathesis.hook
def before_call(context, case, kwargs):  # pylint: disable=unused-argument
    if isinstance(case.body, dict) and case.body.get("wait_seconds") in WAITS:
        case.body["wait_seconds"] = 0.01  # nobody waits here
    if case.path.startswith("/v1/calendars/") and case.method != "GET" and case.path_parameters.get("name") == "holidays":
        case.path_parameters["name"] = "other"  # tasks name this one: it stays as it is
    if case.path.startswith("/v1/workflow-definitions/") and case.method != "GET" and case.path_parameters.get("name") == "flow":
        case.path_parameters["name"] = "other"
    if case.meta is None or case.meta.generation.mode.is_negative:
        return
    agree_on_query(case)
    fresh_key(case)
    if isinstance(case.body, (dict, list)):
        case.body = small(case.body)
    fix = FIXES.get(case.operation.definition.raw.get("operationId"))
    if fix and isinstance(case.body, dict):
        fix(case.body)
