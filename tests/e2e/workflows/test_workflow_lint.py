"""`belfry workflow lint` and the server refuse the same definitions, for the same fields."""

import json
import pathlib

import pytest

from test_workflow_cli import alone, write  # noqa: F401

pytestmark = pytest.mark.text("definitions are checked before anything runs")

NOOP = {"name": "a", "target_type": "NOOP"}
HTTP = {"name": "a", "target_config": {"url": "https://example.com/"}}
CORPUS = pathlib.Path(__file__).parents[2] / "fuzz" / "corpus" / "workflow"


def config(**more):
    return {"name": "a", "target_config": {"url": "https://example.com/", **more}}


def sub(**more):
    return {"name": "a", "target_type": "WORKFLOW", "target_config": more}


def nested(levels):
    return b'{"steps":[{"name":"a","target_config":{"url":"https://example.com/","body":' + b"[" * levels + b"]" * levels + b"}}]}"


# One step each. What is fine is among them: both must take it.
STEPS = {
    "fine": NOOP,
    "fine with a header": config(headers={"X-A": "1"}),
    "no target": {"name": "a"},
    "no name": {"target_type": "NOOP"},
    "empty name": {**NOOP, "name": ""},
    "long name": {**NOOP, "name": "a" * 65},
    "dotted name": {**NOOP, "name": ".a"},
    "unknown field": {**NOOP, "prioritty": 3},
    "schedule": {**NOOP, "cron_expression": "* * * * *"},
    "dedupe key": {**NOOP, "dedupe_key": "k"},
    "run_at": {**NOOP, "run_at": "2030-01-01T00:00:00Z"},
    "idempotency key": {**NOOP, "idempotency_key": "k"},
    "priority": {**NOOP, "priority": 10},
    "queue": {**NOOP, "queue": "a b"},
    "target": {**NOOP, "target_type": "FAX"},
    "command": {**NOOP, "target_type": "COMMAND"},
    "join": {**NOOP, "join": "EVERY"},
    "delay": {**NOOP, "delay": "soon"},
    "long delay": {**NOOP, "delay": "40000d"},
    "negative timeout": {**HTTP, "timeout_ms": -1},
    "long timeout": {**HTTP, "timeout_ms": 10**12},
    "no expiry": {**HTTP, "expires_after_seconds": -1},
    "attempts": {**HTTP, "retry": {"max_attempts": 0}},
    "rules": {**HTTP, "retry": {"rules": [{"on": ["sometimes"]}]}},
    "delays": {**HTTP, "retry": {"base_delay_ms": 5000, "max_delay_ms": 10}},
    "delivery": {**HTTP, "delivery": "EXACTLY_ONCE"},
    "metadata": {**HTTP, "metadata": 7},
    "large metadata": {**HTTP, "metadata": {"a": "x" * 70000}},
    "task type": {**HTTP, "task_type": "x" * 300},
    "key and limit of a map": {**HTTP, "concurrency_key": "k", "map": {"over": [1], "max_concurrent": 1}},
    "limit without a key": {**HTTP, "concurrency_limit": 2},
    "empty key": {**HTTP, "concurrency_key": ""},
    "long key": {**HTTP, "concurrency_key": "k" * 300},
    "requires": {**HTTP, "requires": {"gpu": 7}},
    "label": {**HTTP, "requires": {"gpu": "a100"}},
    "resources": {**HTTP, "resources": {"cpu": -1}},
    "room": {**HTTP, "resources": {"cpu": 1, "memory_mb": 100}},
    "scheme": config(url="ftp://example.com/"),
    "user": config(url="https://me:secret@example.com/"),
    "no host": config(url="https:///x"),
    "private host": config(url="http://169.254.169.254/latest"),
    "loopback": config(url="http://127.0.0.1:9/"),
    "port": config(url="https://example.com:99999/"),
    "method": config(method="BREW"),
    "host header": config(headers={"Host": "x"}),
    "header": config(headers={"A b": "x"}),
    "header line": config(headers={"A": "x\r\nB: y"}),
    "own header": config(headers={"webhook-id": "x"}),
    "config": config(methd="GET"),
    "chosen host": config(url={"$join": ["https://", {"$ref": "/input/host"}]}),
    "reference as url": config(url={"$ref": "/input/url"}),
    "unknown root": config(body={"$ref": "/inptu"}),
    "unknown step": config(body={"$ref": "/steps/b/output"}),
    "itself": config(body={"$ref": "/steps/a/output"}),
    "item without a map": config(body={"$ref": "/item"}),
    "output without compensate": config(body={"$ref": "/output"}),
    "run": config(body={"$ref": "/run/foo"}),
    "pointer": config(body={"$ref": "/input/~2"}),
    "unknown word": config(body={"$reff": "/input"}),
    "two words": config(body={"$ref": "/input", "$join": []}),
    "many references": config(body=[{"$ref": "/input"}] * 101),
    "reference to the method": config(method={"$ref": "/input"}),
    "large body": config(body="x" * (2 << 20)),
    "payload": {**HTTP, "payload": "x" * (2 << 20)},
    "message": {"name": "a", "target_type": "QUEUE_MESSAGE", "target_config": {"broker": "none", "topic": "t"}},
    "message without a place": {"name": "a", "target_type": "QUEUE_MESSAGE", "target_config": {}},
    "condition": {**NOOP, "when": {"ref": "/input/x", "op": "like", "value": 1}},
    "condition without value": {**NOOP, "when": {"ref": "/input/x", "op": "eq"}},
    "condition on nothing": {**NOOP, "when": {"all": []}},
    "deep condition": {**NOOP, "when": {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"ref": "/input", "op": "exists"}}}}}}}}}}},
    "list": {**HTTP, "map": {"over": 7}},
    "long list": {**HTTP, "map": {"over": [0] * 10001}},
    "map without over": {**HTTP, "map": {}},
    "failures": {**HTTP, "map": {"over": [1], "max_failures": -1}},
    "map of awaits": {"name": "a", "map": {"over": [1]}, "await": {"signal": "s"}},
    "signal": {"name": "a", "await": {}},
    "name of a signal": {"name": "a", "await": {"signal": "a b"}},
    "approvals": {"name": "a", "await": {"signal": "s", "approvals": 0}},
    "on_timeout alone": {"name": "a", "await": {"signal": "s", "on_timeout": 1}},
    "await with a timeout of calls": {"name": "a", "await": {"signal": "s"}, "timeout_ms": 5},
    "await with a target": {**HTTP, "await": {"signal": "s"}},
    "compensate": {**NOOP, "compensate": {}},
    "compensate with a delay": {**NOOP, "compensate": {"target_type": "NOOP", "delay": "1s"}},
    "compensate by a workflow": {**NOOP, "compensate": {"target_type": "WORKFLOW", "target_config": {"workflow": "w"}}},
    "sub-workflow": sub(version=1),
    "name of a sub-workflow": sub(workflow="a b"),
    "version of a sub-workflow": sub(workflow="w", version=0),
    "hash of a sub-workflow": sub(workflow="w", definition="00"),
    "input of a sub-workflow": {**sub(workflow="w"), "payload": 1},
    "deadline of a sub-workflow": sub(workflow="w", deadline_seconds=0),
}

WHOLE = {
    "empty": b"",
    "no JSON": b"{",
    "list": b"[]",
    "null": b"null",
    "no steps": b"{}",
    "empty steps": b'{"steps": []}',
    "steps": b'{"steps": {}}',
    "unknown": b'{"steps":[{"name":"a","target_type":"NOOP"}],"result_":1}',
    "result": b'{"steps":[{"name":"a","target_type":"NOOP"}],"result":{"$ref":"/steps/b/output"}}',
    "twice": b'{"steps":[{"name":"a","target_type":"NOOP"},{"name":"a","target_type":"NOOP"}]}',
    "member twice": b'{"steps":[{"name":"a","name":"b","target_type":"NOOP"}]}',
    "cycle": b'{"steps":[{"name":"a","target_type":"NOOP","depends_on":["b"]},{"name":"b","target_type":"NOOP","depends_on":["a"]}]}',
    "itself": b'{"steps":[{"name":"a","target_type":"NOOP","depends_on":["a"]}]}',
    "parent twice": b'{"steps":[{"name":"a","target_type":"NOOP"},{"name":"b","target_type":"NOOP","depends_on":["a","a"]}]}',
    "type": b'{"steps":[{"name":"a","target_type":"NOOP"},{"name":"b","target_type":"NOOP","depends_on":[{"step":"a","type":"MAY"}]}]}',
    "UTF-8": b'{"steps":[{"name":"a\xff","target_type":"NOOP"}]}',
    "NUL": b'{"steps":[{"name":"a\\u0000","target_type":"NOOP"}]}',
    "surrogate": b'{"steps":[{"name":"a","target_type":"NOOP","metadata":{"x":"\\ud800"}}]}',
    "number": b'{"steps":[{"name":"a","target_type":"NOOP","priority":1e400}]}',
    "comma": b'{"steps":[{"name":"a","target_type":"NOOP"},]}',
    "BOM": b'\xef\xbb\xbf{"steps":[{"name":"a","target_type":"NOOP"}]}',
    "rest": b'{"steps":[{"name":"a","target_type":"NOOP"}]} x',
    "deep": nested(30),
    "too deep": nested(3000),
}


# What only a server knows: this one has no workers to choose from.
OF_THE_SERVER = {"room": "steps[0].resources"}


def texts():
    for name, step in STEPS.items():
        yield name, json.dumps({"steps": [step]}).encode()
    yield from WHOLE.items()
    for path in sorted(CORPUS.iterdir()):
        yield f"corpus/{path.name}", path.read_bytes()


def test_lint_refuses_what_the_server_refuses(alone, client, tmp_path):
    path, differ = tmp_path / "x.json", []
    for name, text in texts():
        path.write_bytes(text)
        linted = alone("lint", str(path))
        answer = client.request("PUT", "/v1/workflow-definitions/x", raw=text, headers={"Content-Type": "application/json"})
        fields = sorted(x["field"] for x in answer.json.get("errors", [])) if answer.status == 400 else []
        if name in OF_THE_SERVER:
            assert (answer.status, fields, linted.code) == (400, [OF_THE_SERVER[name]], 0), (answer, linted)
            continue
        missed = [x for x in fields if x and f": {x}" not in linted.err]
        if (answer.status < 300) != (linted.code == 0) or missed:
            differ.append((name, answer.status, linted.code, missed, linted.err[-200:], answer.body[-300:]))
    assert not differ, "\n".join(map(str, differ))


def test_a_guessed_name_whose_value_does_not_fit_is_no_second_error(alone, write):  # noqa: F811
    told = alone("lint", write("x.json", json.dumps({"steps": [{**NOOP, "retires": 3}]}))).err
    assert "steps[0].retires: is unknown, did you mean 'requires'?" in told and told.count("steps[0]") == 1, told


@pytest.mark.shared
def test_all_errors_of_a_definition_come_in_one_answer(client):
    definition = {"steps": [{"name": "a", "target_type": "NOOP", "priority": 10}, {"name": "b", "target_type": "NOOP", "depends_on": ["x"]},
                            {"name": "c", "target_config": {"url": "http://127.0.0.1:9/", "body": {"$reff": "/input"}}},
                            {"name": "d", "target_type": "NOOP", "map": {"over": 7}, "metadata": []}]}
    fields = ["steps[1].depends_on[0]", "steps[2].target_config.body.$reff", "steps[3].map.over", "steps[0].priority", "steps[3].metadata"]
    answer = client.request("PUT", "/v1/workflow-definitions/wrong", definition)
    assert answer.status == 400 and [x["field"] for x in answer.json["errors"]] == fields, answer.json
    assert "(and 4 more errors)" in answer.json["detail"], answer
    answer = client.post("/v1/workflows", {"definition": definition})
    assert answer.status == 400 and [x["field"] for x in answer.json["errors"]] == [f"definition.{x}" for x in fields], answer.json
