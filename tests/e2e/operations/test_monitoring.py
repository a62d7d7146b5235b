"""The rules, alerts, dashboard and runbook in deploy/monitoring and docs: judged by promtool, against the real /metrics, and
in ./test long by a real Prometheus that scrapes a real server."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from server import until

ROOT = pathlib.Path(__file__).parents[3]
RULES = ROOT / "deploy/monitoring/belfry.rules.yml"
DASHBOARD = ROOT / "deploy/monitoring/grafana-dashboard.json"
RUNBOOK = ROOT / "docs/RUNBOOK.md"
METRIC = re.compile(r"\bbelfry_[a-z_]+")

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is missing: the rules were not judged")


def alerts():
    """Name of each alert → its `for`, "" if it has none."""
    found = re.findall(r"- alert: (\w+)\n(.*?)(?=\n      - |\Z)", RULES.read_text(), re.S)
    return {name: (re.search(r"\n        for: (\w+)", body) or [None, ""])[1] for name, body in found}


# ----------------------------------------------------------------------------------------------------------------------
# each alert: what makes it fire, and what is just not enough. A sample every 30 s

STEP_S = 30


def counter(a_minute, name, instance="a", **labels):
    """A counter that grows at that rate, and begins again after 8 minutes, as after a restart: that hides one step of ten in 5 minutes."""
    step = a_minute / 2
    return {series(name, instance, **labels): f"0+{step:g}x16 0+{step:g}x100"}


def series(name, instance="a", **labels):
    return name + "{" + ",".join(f'{k}="{v}"' for k, v in {"instance": instance, "job": "belfry", **labels}.items()) + "}"


def level(value, name, instance="a", **labels):
    return {series(name, instance, **labels): f"{value}x120"}


def of_leader(value, name, growth=0):
    """The leader changes after 5 minutes, and for a moment there is none."""
    return {series(name): f"{value}+{growth}x9 stale", series(name, "b"): f"_x11 {value + 11 * growth}+{growth}x120"}


def histogram(name, limit, above, share):
    """100,000 observations a minute, of which that share is within the limit, and all within the next bound."""
    bounds = {limit: share, above: 1, "+Inf": 1}
    found = counter(100000, name + "_count")
    for bound, part in bounds.items():
        found |= counter(100000 * part, name + "_bucket", le=bound)
    return found


def objective(kind, bad):
    if kind == "Start":
        return histogram("belfry_start_delay_seconds", "5", "10", 1 - bad)
    if kind == "Success":
        return counter(1e6 * bad, "belfry_task_failures_total", fault="belfry") | counter(1e6, "belfry_tasks_executed_total") | counter(0, "belfry_tasks_recovered_total")
    return counter(1e6 * bad, "belfry_http_errors_total") | counter(1e6, "belfry_http_requests_total")


def failures(executed, failed):
    return counter(executed, "belfry_tasks_executed_total") | counter(0, "belfry_tasks_recovered_total") | counter(failed, "belfry_task_failures_total", fault="target")


def leaders(a, b):
    return level(a, "belfry_leader") | level(b, "belfry_leader", "b")


def stands(name, growth):
    """A counter that stands still, or moves a little."""
    return {series(name): f"7+{growth}x120"}


def aged(seconds):
    """The depth of the queue is 0, and was counted that long ago."""
    return stands("belfry_tasks_claimed_total", 0) | level(0, "belfry_queue_depth") | level(seconds, "belfry_queue_depth_age_seconds")


CASES = {  # alert → (what is just not enough, …), what makes it fire, or several of these
    "BelfryDown": ([level(0, "up") | level(1, "up", "b")], level(0, "up") | level(0, "up", "b")),
    "BelfryNothingClaimed": ([stands("belfry_tasks_claimed_total", 0) | of_leader(0, "belfry_queue_depth"),
                              stands("belfry_tasks_claimed_total", 1) | of_leader(5, "belfry_queue_depth"),
                              aged(119), aged(300) | stands("belfry_tasks_claimed_total", 1)],
                             [stands("belfry_tasks_claimed_total", 0) | of_leader(5, "belfry_queue_depth"),
                              stands("belfry_tasks_claimed_total", 0), aged(121)]),
    "BelfryDeadLetters": ([counter(9.9, "belfry_dead_letters_total")], counter(11.5, "belfry_dead_letters_total")),
    "BelfrySlowRuns": ([histogram("belfry_execution_duration_seconds", "30", "60", 0.951)], histogram("belfry_execution_duration_seconds", "30", "60", 0.949)),
    "BelfryFailures": ([failures(1000, 9.9), failures(10, 1.9)], failures(1000, 10.5)),
    "BelfryLate": ([histogram("belfry_start_delay_seconds", "5", "10", 0.991)], histogram("belfry_start_delay_seconds", "5", "10", 0.989)),
    "BelfryBacklogGrowing": ([of_leader(0, "belfry_queue_depth", 245)], of_leader(0, "belfry_queue_depth", 280)),
    "BelfryQueueDeep": ([of_leader(1000, "belfry_queue_depth")], of_leader(1001, "belfry_queue_depth")),
    "BelfryBusy": ([level(80, "belfry_tasks_running") | level(100, "belfry_worker_slots")], level(81, "belfry_tasks_running") | level(100, "belfry_worker_slots")),
    "BelfryLowWaits": ([level(300, "belfry_oldest_wait_seconds", **{"class": "low"})], level(301, "belfry_oldest_wait_seconds", **{"class": "low"})),
    "BelfryNoLeader": ([leaders(0, 1)], leaders(0, 0)),
    "BelfryRecoveries": ([stands("belfry_tasks_recovered_total", 0)], counter(1, "belfry_tasks_recovered_total")),
    "BelfryClockSkew": ([level(-0.54, "belfry_clock_offset_seconds") | level(0.05, "belfry_clock_error_seconds")],
                        [level(-0.56, "belfry_clock_offset_seconds") | level(0.05, "belfry_clock_error_seconds"), counter(1, "belfry_clock_jumps_total")]),
    "BelfryNotificationsStuck": ([level(300, "belfry_notification_oldest_seconds")],
                                 level(2, "belfry_notification_oldest_seconds") | level(301, "belfry_notification_oldest_seconds", "b")),
    "BelfryStoreSlow": ([histogram("belfry_store_wait_seconds", "1", "2.5", 0.991)], histogram("belfry_store_wait_seconds", "1", "2.5", 0.989)),
    "BelfryClaimsFailing": ([stands("belfry_claim_failures_total", 0)], counter(1, "belfry_claim_failures_total")),
    "BelfryBackendDown": ([level(0, "belfry_backend_down", backend="queue")], level(0, "belfry_backend_down", backend="queue") | level(1, "belfry_backend_down", "b", backend="queue")),
    **{f"Belfry{kind}Budget{speed}": ([objective(kind, 0.95 * bad)], objective(kind, 1.05 * bad))
       for kind, budget in (("Start", 0.001), ("Success", 0.0001), ("Api", 0.001)) for speed, bad in (("Fast", 6 * budget), ("Slow", budget))},
    "BelfryWatchdog": ([], {}),
}


def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]] if text else 0


def judged(alert, given, moments):
    """moments: seconds → whether the alert fires then."""
    expected = lambda fires: [{"labels": "{}", "value": 1}] if fires else []
    return {"interval": f"{STEP_S}s", "input_series": [{"series": s, "values": v} for s, v in given.items()],
            "promql_expr_test": [{"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": f"{at_s}s",
                                  "exp_samples": expected(fires)} for at_s, fires in moments.items()]}


def cases_of(alert):
    """Rates need two samples, and windows fill: an alert fires within 6 minutes after its `for`, but never before."""
    silent, firing = CASES[alert]
    wait_s = seconds(alerts()[alert])
    for given in silent:
        yield judged(alert, given, {wait_s + 900: False})
    before = {wait_s - STEP_S: False} if wait_s else {}
    for given in firing if isinstance(firing, list) else [firing]:
        yield judged(alert, given, before | {wait_s + 360: True, wait_s + 600: True, wait_s + 900: True})


@pytest.mark.begins_early
@needs_promtool
def test_each_alert_fires_when_it_should_and_not_before(tmp_path):
    """Silent just below its limit and just before its `for`; neither a restart nor another leader ends it."""
    assert alerts().keys() == CASES.keys()
    tests = {"rule_files": [str(RULES)], "evaluation_interval": f"{STEP_S}s", "tests": [c for alert in CASES for c in cases_of(alert)]}
    (tmp_path / "alerts.yml").write_text(json.dumps(tests))
    done = subprocess.run(["promtool", "test", "rules", tmp_path / "alerts.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("arguments", [("rules", RULES), ("config", "--syntax-only", RULES.with_name("prometheus.yml"))])
def test_promtool_accepts_the_rules_and_the_example(arguments):
    done = subprocess.run(["promtool", "check", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_section_of_the_runbook():
    sections = dict(re.findall(r"^## (Belfry\w+)\n(.*?)(?=^## |\Z)", RUNBOOK.read_text(), re.M | re.S))
    assert sections.keys() == alerts().keys()
    for name, text in sections.items():
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.M) == ["Meaning", "Impact", "Check", "Mend"], name
        assert f"runbook: docs/RUNBOOK.md#{name.lower()}\n" in RULES.read_text()


def recorded():
    return set(re.findall(r"- record: (\S+)", RULES.read_text()))


def queries():
    """Title of each panel → its queries."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return {p["title"]: [t["expr"] for t in p["targets"]] for p in panels if p["type"] != "row"}


@pytest.mark.standalone("some metrics are the leader's alone")
def test_rules_and_dashboard_name_metrics_that_there_are(client):
    client.create(name="one", target_type="NOOP", delay="0s")
    until(lambda: "belfry_workers_wanted " in client.get("/metrics").body.decode(), timeout_s=30)
    shown = set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").body.decode(), re.M))
    texts = RULES.read_text() + "\n".join(q for all in queries().values() for q in all)
    named = {re.sub("_(bucket|count|sum)$", "", name) for name in METRIC.findall(texts)}
    assert named <= shown, f"/metrics lacks {named - shown}"
    used = set(re.findall(r"belfry:[a-z0-9_:]+", "\n".join(q for all in queries().values() for q in all)))
    assert used <= recorded(), f"no rule records {used - recorded()}"


# ----------------------------------------------------------------------------------------------------------------------
# a real Prometheus


class Prometheus:
    """Debian's, on a free port and a folder of its own; scrapes all servers and workers each second."""

    def __init__(self, folder, server, key, rules):
        (folder / "belfry.key").write_text(key)
        at = lambda processes: [{"targets": [f"127.0.0.1:{p.port}" for p in processes]}]
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(rules)],
                  "scrape_configs": [{"job_name": "belfry", "authorization": {"credentials_file": str(folder / "belfry.key")}, "static_configs": at(server.nodes)},
                                     {"job_name": "belfry-worker", "static_configs": at(getattr(server, "workers", []))}]}
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.port = free_port()
        self.log = open(folder / "prometheus.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                                         f"--web.listen-address=127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def ask(self, query):
        """The series that the query returns now; None while Prometheus starts."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?query={urllib.parse.quote(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as e:
            assert e.code == 503, f"{query}: {e.read()}"
            return None
        except OSError:
            return None

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.skipif(not os.environ.get("BELFRY_TEST_LONG"), reason="only in ./test long")
@pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is missing")
def test_a_real_prometheus_fires_an_alert_and_fills_every_panel(server, client, receiver, tmp_path):
    """1,500 tasks of a queue without a worker wait: BelfryQueueDeep, whose `for` is cut to 5 s here."""
    rules = tmp_path / "belfry.rules.yml"
    rules.write_text(RULES.read_text().replace("        for: 5m\n", "        for: 5s\n"))
    key = client.post("/v1/api-keys", {"name": "scraper", "scopes": ["metrics:read"]}).json["key"]
    waiting = [{"queue": "a", "task_type": "w", "target_type": "WORKER"} for _ in range(1500)]
    prometheus = Prometheus(tmp_path, server, key, rules)
    try:
        until(lambda: prometheus.ask("belfry_tasks_executed_total"), why="nothing was scraped")
        assert client.post("/v1/tasks/batch", waiting).status == 201
        client.wait_for(client.create(**receiver.target("/hook"))["id"], "COMPLETED")
        until(lambda: prometheus.ask('ALERTS{alertname="BelfryQueueDeep",alertstate="firing"}'), why="BelfryQueueDeep does not fire")
        for title, all_queries in queries().items():
            for query in all_queries:
                query = query.replace("$tenant", "default")
                until(lambda: prometheus.ask(query), timeout_s=90, why=f"the panel '{title}' is empty: {query}")
    finally:
        prometheus.close()
