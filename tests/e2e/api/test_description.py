"""What /openapi.json says of requests is so: each example is accepted, and each bound of each field is the server's."""

import itertools
import json
import uuid

import pytest

import openapi
from server import until

pytestmark = pytest.mark.standalone("the description is the same on every node")
FAR = {"target_type": "NOOP", "delay": "300d"}
SHIP = {"name": "ship", "target_type": "NOOP"}


def operations():
    return [(path, method.upper(), operation) for path, item in openapi.description()["paths"].items() for method, operation in item.items()]


def parameters(operation):
    return [openapi.follow(parameter) for parameter in operation.get("parameters", [])]


def examples(media):
    """Those of the operation, else those of its schema."""
    if "example" in media:
        return [media["example"]]
    return openapi.follow(media["schema"])["examples"]


# ----------------------------------------------------------------------------------------------------------------------
# examples


class World:
    """One resource of each kind, for the parameter in a path."""

    def __init__(self, client):
        self.client = client
        self.numbers = itertools.count()

    def created(self, path, body, field="id", status=201):
        answer = self.client.post(path, body)
        assert answer.status == status, answer
        return answer.json[field]

    def task(self):
        return self.created("/v1/tasks", FAR)

    def recurring(self):
        return self.created("/v1/tasks", {"target_type": "NOOP", "cron_expression": "0 0 1 1 *"})

    def failed(self):
        task = self.created("/v1/tasks", {"target_config": {"url": "http://127.0.0.1:9/"}, "retry": {"max_attempts": 1}})
        self.client.wait_for(task, "FAILED")
        return task

    def signing_key(self):
        return self.created("/v1/signing-keys", {"host": f"host{next(self.numbers)}.example.org"})

    def leased(self):
        self.created("/v1/tasks", {"target_type": "WORKER", "queue": "examples"})
        return until(lambda: self.client.post("/v1/leases", {"queue": "examples", "wait_seconds": 5}).json["leases"])[0]["id"]

    def job(self):
        """One that is still at work: a cancel comes before its end."""
        return self.created("/v1/tasks/bulk", {"action": "pause", "filter": {"all": True}}, status=202)

    def paused(self):
        task = self.task()
        self.client.act(task, "pause")
        return task

    def queue(self):
        name = f"queue{next(self.numbers)}"
        assert self.client.request("PUT", f"/v1/queues/{name}", {}).status == 200
        return name

    def calendar(self):
        name = f"calendar{next(self.numbers)}"
        assert self.client.request("PUT", f"/v1/calendars/{name}", {}).status == 201
        return name

    def tenant(self):
        return self.created("/v1/tenants", {"name": f"tenant{next(self.numbers)}"}, "name")

    def key(self):
        return self.created("/v1/api-keys", {"name": "k", "scopes": ["tasks:read"]})

    def workflow(self):
        name = f"workflow{next(self.numbers)}"
        assert self.client.request("PUT", f"/v1/workflow-definitions/{name}", {"steps": [SHIP]}).status == 201
        return name

    def run(self):
        """One that is open, and waits for a signal."""
        sign = {"name": "sign", "await": {"signal": "approved"}}
        run = self.created("/v1/workflows", {"definition": {"steps": [sign, {**SHIP, "depends_on": ["sign"]}]}})
        until(lambda: self.client.get(f"/v1/workflows/{run}/status").json["awaiting"])
        return run

    def mapped_run(self):
        """One whose step is a map with an item that nobody takes."""
        run = self.created("/v1/workflows", {"definition": {"steps": [{"name": "ship", "target_type": "WORKER", "map": {"over": [1]}}]}})
        until(lambda: len(self.client.get(f"/v1/workflows/{run}/steps").json["steps"]) == 2)
        return run

    def ended_run(self):
        run = self.created("/v1/workflows", {"definition": {"steps": [SHIP]}})
        assert self.client.get(f"/v1/workflows/{run}?wait_seconds=20").json["status"] == "COMPLETED"
        return run

    def cancelled_run(self):
        run = self.run()
        assert self.client.post(f"/v1/workflows/{run}/cancel").status == 200
        assert self.client.get(f"/v1/workflows/{run}?wait_seconds=20").json["status"] == "CANCELLED"
        return run

    def setting(self):
        return self.created("/v1/notification-settings", {"name": str(uuid.uuid4()), "on_failure": True, "group_wait": "0s", "delivery_type": "HTTP_WEBHOOK",
                                                          "delivery_config": {"url": "http://127.0.0.1:9/"}})

    def incident(self):
        """The open one of a new setting."""
        setting = self.setting()
        self.failed()
        return until(lambda: self.client.get(f"/v1/incidents?setting={setting}").json["incidents"])[0]["id"]

    def dropped_message(self):
        """One that is not sent any more."""
        setting = self.setting()
        self.client.request("PATCH", f"/v1/notification-settings/{setting}", {"delivery_config": {"url": "http://192.0.2.1/"}})
        message = self.client.post(f"/v1/notification-settings/{setting}/test").json
        assert message["state"] == "FAILED", message
        return message["id"]

    def nobody(self):
        return "01920000-0000-7000-8000-000000000001"


WHOSE = {"/v1/queues/": World.queue, "/v1/calendars/": World.calendar, "/v1/tenants/": World.tenant, "/v1/api-keys/": World.key,
         "/v1/leases/": World.leased, "/v1/dlq/": World.failed, "/v1/jobs/": World.job, "/v1/recurring-tasks/": World.recurring,
         "/v1/workflow-definitions/": World.workflow, "/v1/workflows/": World.run, "/v1/tasks/": World.task, "/v1/breakers/": World.nobody,
         "/v1/notification-settings/": World.setting, "/v1/incidents/": World.incident, "/v1/notifications/": World.dropped_message, "/v1/workers/": World.nobody,
         "/v1/signing-keys/": World.signing_key}
ABOUT = {"getWorkflowStep": World.mapped_run, "retryWorkflow": World.cancelled_run, "rerunWorkflow": World.ended_run, "retryTask": World.failed, "resumeTask": World.paused, "listOccurrences": World.recurring}
MAY_BE_REFUSED = {"closeBreaker": 404, "getWorker": 404, "cancelJob": 409, "streamEvents": 404,
                  "login": 401}  # nothing to close, no fleet, the job may have ended, no such task, no such key


def path_of(world, path, operation):
    """The path with a parameter that names something real."""
    if "{" not in path:
        return path
    make = ABOUT.get(operation["operationId"]) or next(make for start, make in WHOSE.items() if path.startswith(start))
    start, _, end = path.partition("{")
    rest = end.partition("}")[2]
    for parameter in parameters(operation):
        rest = rest.replace(f"{{{parameter['name']}}}", str(parameter.get("example")))
    return start + make(world) + rest


def accepted(answer, operation):
    return answer.status < 300 or answer.status == MAY_BE_REFUSED.get(operation["operationId"])


def test_every_operation_has_a_name_of_its_own_and_examples():
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)
    for path, method, operation in operations():
        for parameter in parameters(operation):
            assert "example" in parameter or parameter["name"] == "cursor" or path.startswith("/v1/leases/"), (method, path, parameter)
        for media in operation.get("requestBody", {}).get("content", {}).values():
            assert examples(media), (method, path)


def test_every_example_of_a_body_is_accepted(client):
    world, sent = World(client), 0
    for path, method, operation in operations():
        for kind, media in operation.get("requestBody", {}).get("content", {}).items():
            for example in examples(media):
                raw = example if isinstance(example, str) else json.dumps(example)
                answer = client.request(method, path_of(world, path, operation), raw=raw.encode(), headers={"Content-Type": kind})
                assert accepted(answer, operation), (method, path, example, answer)
                sent += 1
    assert sent > 50


def test_every_example_of_a_query_is_accepted(client):
    world = World(client)
    for path, method, operation in operations():
        if method != "GET":
            continue
        real = path_of(world, path, operation)
        queries = [f"?{p['name']}={json.dumps(p['example']).strip(chr(34))}" for p in parameters(operation) if p["in"] == "query" and "example" in p]
        for query in ["", *[q for q in queries if not q.startswith("?to=")]]:
            answer = client.get(real + query.replace("+", "%2B"))
            assert accepted(answer, operation), (real + query, answer)


# ----------------------------------------------------------------------------------------------------------------------
# bounds

RECURRING = {"interval_seconds": 3600, "target_type": "NOOP"}
HTTP = {"delay": "300d", "target_config": {"url": "http://127.0.0.1:9/"}}
# The body that a field is added to, and the fields that it needs beside it.
BASES = {**dict.fromkeys(["time_zone", "start_time", "max_runs", "catch_up_mode", "catch_up_window_seconds", "overlap_policy", "spread_seconds",
                          "end_date"], RECURRING),
         "cron_expression": {"target_type": "NOOP"}, "dst_policy": {"target_type": "NOOP", "cron_expression": "0 8 * * *"},
         "interval_seconds": {"target_type": "NOOP"}, "run_at": {"target_type": "NOOP"}, "scheduled_at": {"target_type": "NOOP"},
         "delay": {"target_type": "NOOP"}, "concurrency_limit": {**FAR, "concurrency_key": "k"},
         "dedupe_window_seconds": {**FAR, "dedupe_key": "bounds"}, "dedupe_action": {**FAR, "dedupe_key": "bounds"}, "dedupe_max_wait_seconds": {**FAR, "dedupe_key": "bounds", "dedupe_action": "REPLACE"},
         "join": {**FAR, "depends_on": []}, "calendar": {**RECURRING}, "calendar_policy": {**RECURRING, "calendar": "holidays"}, "target_config": {"delay": "300d"},
         "target_type": {**HTTP}, "requires": {"delay": "300d", "target_type": "WORKER"}, "resources": {"delay": "300d", "target_type": "WORKER"}}
WORDS = {"cron": "0 8 * * *", "time-zone": "Europe/Berlin", "duration-text": "1h", "calendar-name": "holidays", "date-time": "2035-01-01T00:00:00Z"}
NOT_ALONE = {"target_type": ["QUEUE_MESSAGE", "WORKER", "WORKFLOW", "NOOP"], "target_config": [{}],  # need another target_config, or a target_type
             "depends_on": [[f"l{i}" for i in range(1000)]],  # must be ids of tasks
             "notify": [[f"l{i}" for i in range(10)]]}  # must be names of settings


def types_of(schema):
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


def good_texts(schema):
    if schema.get("format") in WORDS:
        return [WORDS[schema["format"]]]
    return ["a" * schema.get("minLength", 1), "a" * schema.get("maxLength", 100)]


def good_values(schema):
    """Values at the edge of what the schema allows."""
    if "enum" in schema:
        return schema["enum"]
    found = [None] if "null" in types_of(schema) else []
    if "string" in types_of(schema):
        found += good_texts(schema)
    if {"integer", "number"} & set(types_of(schema)):
        found += [schema["minimum"], schema["maximum"], float(schema["maximum"])]
    if "array" in types_of(schema):
        found += [[], [f"l{i}" for i in range(schema["maxItems"])]]
    if "object" in types_of(schema):
        found += [{}]
    return found


def bad_values(schema):
    """Values right beyond it."""
    found = [True]
    if {"integer", "number"} & set(types_of(schema)):
        whole = "integer" in types_of(schema)
        found += ["1", schema["minimum"] - (1 if whole else 0.01), schema["maximum"] + 1] + ([schema["minimum"] + 0.5] if whole else [])
    if "string" in types_of(schema):
        found += [7, ""] + (["a" * (schema["maxLength"] + 1)] if "maxLength" in schema else []) + (["a b\x01"] if "pattern" in schema else [])
    if "enum" in schema:
        found += ["NONSENSE"]
    if "array" in types_of(schema):
        found += [[7], ["a b"], ["l"] * (schema["maxItems"] + 1), {}]
    if "object" in types_of(schema):
        found += [[], "x"]
    return found


FIELDS = {name: schema for name, schema in openapi.description()["components"]["schemas"]["NewTask"]["properties"].items()
          if name not in ("payload", "retry", "target_config", "idempotency_key", "expect")}
RETRY = openapi.description()["components"]["schemas"]["Retry"]["properties"]


@pytest.fixture
def calendars(client):
    assert client.request("PUT", "/v1/calendars/holidays", {"excluded_weekdays": ["SUN"]}).status == 201


def test_what_the_description_allows_in_a_task_is_accepted(client, calendars):
    for name, schema in FIELDS.items():
        for value in good_values(schema):
            if value in NOT_ALONE.get(name, []):
                continue
            answer = client.post("/v1/tasks", {**BASES.get(name, FAR), name: value})
            assert answer.status in (200, 201) or (value is None and name in BASES), (name, value, answer)
    for name, schema in RETRY.items():
        for value in good_values(schema) if name != "rules" else [[], [{"on": ["5xx", "timeout"], "max_attempts": 100}]]:
            beside = {"max_delay_ms": 604800000} if name == "base_delay_ms" else {"base_delay_ms": 1} if name == "max_delay_ms" else {}
            assert client.post("/v1/tasks", {**FAR, "retry": {**beside, name: value}}).status == 201, (name, value)


def test_what_the_description_forbids_in_a_task_is_refused_by_its_field(client, calendars):
    for name, schema in FIELDS.items():
        for value in bad_values(schema):
            answer = client.post("/v1/tasks", {**BASES.get(name, FAR), name: value})
            assert answer.status == 400, (name, value, answer)
            [error] = answer.json["errors"]
            assert error["field"].startswith(name) and error["message"], (name, value, answer)
    for name, schema in RETRY.items():
        for value in bad_values({**schema, "maxItems": 20}):
            answer = client.post("/v1/tasks", {**FAR, "retry": {name: value}})
            assert answer.status == 400 and answer.json["errors"][0]["field"].startswith(f"retry.{name}"), (name, value, answer)


def test_a_run_takes_the_described_fields_of_a_task_and_no_others(client):
    run = openapi.description()["components"]["schemas"]["NewWorkflowRun"]["properties"]
    definition = {"steps": [SHIP]}
    for name, schema in FIELDS.items():
        value = next(value for value in reversed(good_values(schema)) if value is not None)
        if name in ("depends_on", "notify", "type"):
            value = "ONE_TIME" if name == "type" else []
        beside = {other: needed for other, needed in BASES.get(name, {}).items() if other in run and other != name}
        answer = client.post("/v1/workflows", {"definition": definition, **beside, name: value})
        assert answer.status in ((200, 201) if name in run else (400,)), (name, value, answer)
        if name not in run:
            assert answer.json["errors"][0]["field"] == name, answer
