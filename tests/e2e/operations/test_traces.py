"""Spans of requests, attempts and calls, as a collector gets them."""

import re

import pytest

from otlp import Collector, ExportTraceServiceRequest, read_by_the_library, read_request
from server import Reply, now_ms, until
from test_workflows_api import http, put

pytestmark = pytest.mark.cluster

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def caller(flag="01", **more):
    return {"traceparent": f"00-{TRACE}-{SPAN}-{flag}", **more}


@pytest.fixture
def collector():
    c = Collector()
    yield c
    c.close()


@pytest.fixture
def traced(make_server, collector):
    """traced(ratio): a server whose spans the collector gets."""
    return lambda ratio="0", **env: make_server(env={"BELFRY_TRACE_ENDPOINT": collector.url(""), "BELFRY_TRACE_RATIO": ratio, **env})


def parts(call):
    """Trace, span and flag of a call that came."""
    return re.fullmatch("00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])", call.headers["traceparent"]).groups()


@pytest.mark.cluster(when="always")
def test_request_attempts_and_calls_are_one_trace(traced, collector, receiver):
    client = traced(OTEL_SERVICE_NAME="mine", OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test").client()
    receiver.answer("/traced", Reply(503), Reply(200))
    body = {"queue": "mail", "retry": {"base_delay_ms": 50, "jitter": "NONE"}, **receiver.target("/traced")}
    task = client.post("/v1/tasks", body, headers=caller(**{"X-Request-Id": "order-7"})).json["id"]
    calls = receiver.wait("/traced", 2)
    collector.wait_spans(5, trace=TRACE)
    [server] = collector.spans(kind="SERVER")
    assert (server.parent, server.name) == (SPAN, "POST /v1/tasks") and not server.failed
    want = {"http.request.method": "POST", "http.route": "/v1/tasks", "http.response.status_code": 201, "belfry.tenant": 1, "belfry.request": "order-7"}
    assert server.attributes == want
    assert server.resource["service.name"] == "mine" and server.resource["deployment.environment"] == "test"
    assert re.fullmatch(r".+:\d+", server.resource["service.instance.id"]) and server.resource["service.version"]
    first, second = sorted(collector.spans(kind="CONSUMER"), key=lambda s: s.attributes["belfry.attempt"])
    for run, call, outcome, state in ((first, calls[0], "failed", "SCHEDULED"), (second, calls[1], "ok", "COMPLETED")):
        assert (run.parent, run.name, run.failed) == (server.id, "run", outcome == "failed")
        want = {"belfry.task": task, "belfry.queue": "mail", "belfry.tenant": 1, "belfry.outcome": outcome, "belfry.state": state}
        assert want.items() <= run.attributes.items()
        [client_span] = collector.spans(kind="CLIENT", parent=run.id)
        assert parts(call) == (TRACE, client_span.id, "01"), "the span of the call travels"
        assert client_span.attributes["http.response.status_code"] == call.status and client_span.attributes["server.address"] == f"127.0.0.1:{receiver.port}"
        assert run.start_ns <= client_span.start_ns <= client_span.end_ns <= run.end_ns
    assert "503" in first.error and first.end_ns / 1e6 <= now_ms()


@pytest.mark.standalone("the same bytes from every node")
@pytest.mark.skipif(ExportTraceServiceRequest is None, reason="opentelemetry-proto: scripts/install-python-tools could not install it, or was not run")
def test_opentelemetrys_own_classes_read_the_same(traced, collector, receiver):
    """Every kind of span, a link, an error, a state: the collector compares what it reads."""
    client = traced(ratio="1").client()
    receiver.answer("/gone", Reply(410))
    client.post("/v1/tasks", {**receiver.target("/gone")}, headers=caller(tracestate="vendor=a"))
    client.post("/v1/tasks", {"interval_seconds": 1, **receiver.target("/tick")}, headers=caller())
    receiver.wait("/tick")
    collector.wait_spans(kind="CLIENT", failed=True)
    assert until(lambda: [s for s in collector.spans(kind="CONSUMER") if s.links])
    bodies = [call.body for call in collector.to("/v1/traces")]
    assert sum(len(read_by_the_library(body)) for body in bodies) == sum(len(read_request(body)) for body in bodies) > 4


def test_a_caller_who_does_not_record_is_followed_but_failures_are_told(traced, collector, receiver):
    client = traced(ratio="1").client()
    receiver.answer("/quiet", Reply(404))
    task = client.post("/v1/tasks", receiver.target("/quiet"), headers=caller("00")).json["id"]
    client.wait_for(task, "FAILED")
    assert parts(receiver.wait("/quiet")[0])[2] == "00"
    collector.wait_spans(2, trace=TRACE)
    assert sorted(s.kind for s in collector.spans(trace=TRACE)) == ["CLIENT", "CONSUMER"] and all(s.failed and not s.sampled for s in collector.spans(trace=TRACE))
    [run] = collector.spans(trace=TRACE, kind="CONSUMER")
    assert run.parent == SPAN


def test_the_ratio_decides_over_traces_that_begin_here(traced, collector, receiver):
    client = traced(ratio="1").client()
    task = client.create(**receiver.target("/own"))["id"]
    trace, span, flag = parts(receiver.wait("/own")[0])
    assert flag == "01"
    client.wait_for(task, "COMPLETED")
    [server, run, call] = sorted(collector.wait_spans(3, trace=trace), key=lambda s: ["SERVER", "CONSUMER", "CLIENT"].index(s.kind))
    assert (server.parent, run.parent, call.parent, call.id) == ("", server.id, run.id, span)
    [execution] = client.get(f"/v1/tasks/{task}/executions").json["executions"]
    assert execution["trace_id"] == trace


@pytest.mark.standalone("a setting")
def test_a_ratio_of_0_records_nothing(traced, collector, receiver):
    server = traced(ratio="0")
    client = server.client()
    client.wait_for(client.create(**receiver.target("/none"))["id"], "COMPLETED")
    assert parts(receiver.wait("/none")[0])[2] == "00"
    server.stop()  # sends what there is
    assert not collector.spans()


def test_occurrences_have_traces_of_their_own_with_a_link(traced, collector, receiver):
    client = traced(ratio="1").client()
    body = {"interval_seconds": 1, **receiver.target("/tick")}
    made = client.post("/v1/tasks", body, headers=caller())
    assert made.status == 201, made
    calls = receiver.wait("/tick", 2)[:2]
    client.act(made.json["id"], "cancel")
    [server] = collector.wait_spans(kind="SERVER", trace=TRACE)
    traces = {parts(c)[0] for c in calls}
    assert len(traces) == 2 and TRACE not in traces
    for trace in traces:
        [run] = collector.wait_spans(trace=trace, kind="CONSUMER")
        assert run.parent == "" and run.links == [(TRACE, server.id)] and run.attributes["belfry.parent"] == made.json["id"]


def test_a_run_of_a_workflow_is_a_span_with_its_steps_below(traced, collector, receiver):
    """A run with a step and a step that is a run itself, which has one step."""
    client = traced().client()
    put(client, "inner", {"steps": [{"name": "deep", **http(receiver, "/step")}]})
    outer = {"steps": [{"name": "one", **http(receiver, "/step")}, {"name": "two", "depends_on": ["one"], "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}]}
    made = client.post("/v1/workflows", {"definition": outer}, headers=caller())
    assert made.status == 201, made
    receiver.wait("/step", 2)
    [run] = collector.wait_spans(trace=TRACE, name="workflow")
    [server] = collector.wait_spans(trace=TRACE, kind="SERVER")
    assert (run.kind, run.parent, run.attributes["belfry.state"], run.attributes["belfry.task"]) == ("INTERNAL", server.id, "COMPLETED", made.json["id"])
    [below] = collector.wait_spans(trace=TRACE, name="step")
    attempts = {s.parent: s for s in collector.wait_spans(2, trace=TRACE, kind="CONSUMER")}
    assert below.parent == run.id and attempts.keys() == {run.id, below.id}
    assert run.start_ns <= attempts[run.id].end_ns <= attempts[below.id].end_ns <= below.end_ns <= run.end_ns


def test_tracestate_leaves_if_it_is_set(traced, receiver):
    client = traced(BELFRY_TRACE_STATE="true").client()
    client.post("/v1/tasks", receiver.target("/state"), headers=caller(tracestate="vendor=a"))
    assert receiver.wait("/state")[0].headers["tracestate"] == "vendor=a"


def test_a_leased_task_is_a_span(traced, collector):
    server = traced()
    client, node = server.client(), server.turn()
    client.post("/v1/tasks", {"queue": "outside", "target_type": "WORKER"}, headers=caller())
    [lease] = client.post("/v1/leases", {"queue": "outside", "wait_seconds": 10}, node=node).json["leases"]
    assert client.post(f"/v1/leases/{lease['id']}/complete", {}, node=node).status == 200
    [run] = collector.wait_spans(trace=TRACE, kind="CONSUMER")
    assert lease["traceparent"] == f"00-{TRACE}-{run.id}-01"


@pytest.mark.standalone("one collector, one sender")
def test_a_collector_that_is_down_delays_nothing(traced, collector, receiver):
    collector.answer("/v1/traces", Reply(500))
    server = traced(ratio="1")
    client = server.client()
    client.wait_for(client.create(**receiver.target("/on"))["id"], "COMPLETED")
    until(lambda: re.search(r'belfry_spans_total\{result="failed"\} [1-9]', client.get("/metrics").body.decode()))
    assert until(lambda: [line for line in server.lines if "event=spans_not_exported" in line and "500" in line])
    server.stop()


@pytest.mark.standalone("an answer of one node")
def test_openmetrics_has_exemplars(traced, receiver):
    client = traced(ratio="1").client()
    task = client.create(**receiver.target("/seen"))["id"]
    client.wait_for(task, "COMPLETED")
    trace = parts(receiver.wait("/seen")[0])[0]
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    for asked in (accept, "application/openmetrics-text"):
        answer = client.get("/metrics", headers={"Accept": asked})
        assert answer.status == 200 and answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        lines = answer.body.decode().splitlines()
        assert lines[-1] == "# EOF" and lines.count("# EOF") == 1
        for name in ("execution_delay", "execution_duration", "start_delay"):
            found = [line for line in lines if line.startswith(f"belfry_{name}_seconds_bucket") and " # " in line]
            assert found and all(re.search(rf' # \{{trace_id="{trace}"\}} \d+\.\d{{6}} \d+\.\d{{3}}$', line) for line in found), lines
        described = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE "))
        assert len(described) == sum(line.startswith("# TYPE ") for line in lines), "each family is described once"
        names = {re.split("[{ ]", line)[0] for line in lines if not line.startswith("#")}
        for name in names:
            family = next(n for n in (name, *(name.removesuffix(s) for s in ("_total", "_bucket", "_sum", "_count"))) if n in described)
            assert name.endswith("_total") == (described[family] == "counter"), name
    plain = client.get("/metrics").body.decode()
    assert "trace_id" not in plain and "# EOF" not in plain and "# TYPE belfry_tasks_executed_total counter" in plain
