"""A living system for the dashboard's tests and pictures: queues, schedules in three zones, a calendar, a workflow with a map and an
approval, failures, a breaker that opens, dead letters of three causes, tasks that wait for a slot, and texts that try to be markup.

    python3 tests/e2e/dashboard/living.py SERVER KEY SINK      fills a server that runs already
"""

import datetime
import http.client
import json
import sys
import urllib.parse

HOSTILE = '<img src=x onerror=alert(1)>\u202e"\'&amp;{{x}}'  # an element, a bidi override, quotes, an entity, a template

SCHEDULES = [  # name, cron, zone, queue, path
    ("tick-rollup", "*/2 * * * *", "Asia/Tokyo", "rollups", "/rollup"),
    ("invoice-batch-us", "*/15 8-20 * * *", "America/New_York", "billing", "/invoices"),
    ("cart-reminders", "*/15 * * * *", "Europe/Berlin", "mail", "/cart"),
    ("fx-rates", "*/10 * * * *", "Europe/Berlin", "default", "/fx"),
    ("price-feed-check", "55 * * * *", "Asia/Tokyo", "default", "/feed"),
    ("stock-sync-tyo", "0 10 * * MON-FRI", "Asia/Tokyo", "default", "/stock"),
    ("patient-recall", "0 21 * * *", "America/New_York", "mail", "/recall"),
    ("claims-batch", "30 23 * * *", "America/New_York", "billing", "/claims"),
    ("warehouse-vacuum", "15 3 * * SUN", "Europe/Berlin", "default", "/vacuum"),
    ("legacy-export", "0 3 1 * *", "Europe/Berlin", "reports", "/export"),
]

SETTLEMENT = {
    "steps": [
        {"name": "fetch-trades", "target_type": "HTTP_CALLBACK", "target_config": {"url": "{sink}/delay/300/trades"}},
        {"name": "validate", "depends_on": ["fetch-trades"], "target_type": "HTTP_CALLBACK",
         "target_config": {"url": "{sink}/delay/500/validate"}},
        {"name": "load-holidays", "depends_on": ["fetch-trades"], "target_type": "NOOP"},
        {"name": "dedupe", "depends_on": ["validate"], "when": {"ref": "/input/dedupe", "op": "eq", "value": True}, "target_type": "NOOP"},
        {"name": "enrich-fx", "depends_on": ["validate"], "target_type": "HTTP_CALLBACK", "target_config": {"url": "{sink}/delay/900/fx"}},
        {"name": "enrich-refdata", "depends_on": ["validate", "load-holidays"], "target_type": "HTTP_CALLBACK",
         "target_config": {"url": "{sink}/delay/400/refdata"}},
        {"name": "price", "depends_on": [{"step": "dedupe", "type": "MUST_NOT_FAIL"}, "enrich-fx", "enrich-refdata"],
         "map": {"over": {"$ref": "/input/items"}, "max_concurrent": 2, "max_failures": 10},
         "target_type": "HTTP_CALLBACK", "target_config": {"url": "{sink}/delay/4000/price"}},
        {"name": "risk-report", "depends_on": ["price"], "target_type": "NOOP"},
        {"name": "reconcile", "depends_on": ["price"], "target_type": "NOOP"},
        {"name": "alert", "depends_on": [{"step": "price", "type": "MUST_FAIL"}], "target_type": "NOOP"},
        {"name": "archive", "depends_on": ["risk-report"], "target_type": "NOOP"},
        {"name": "sign-off", "depends_on": ["reconcile"], "await": {"signal": "sign-off", "approvals": 2, "timeout": "8h"}},
        {"name": "post-ledger", "depends_on": ["sign-off"], "target_type": "NOOP"},
    ],
}


class Api:
    def __init__(self, server, key):
        self.where = urllib.parse.urlsplit(server)
        self.key = key

    def __call__(self, method, path, body=None, key=None, expect=(200, 201, 202, 204)):
        connection = http.client.HTTPConnection(self.where.hostname, self.where.port, timeout=20)
        headers = {"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        assert response.status in expect, f"{method} {path}: {response.status} {text.decode()}"
        return json.loads(text) if text else None


def http_task(name, url, **fields):
    return {"name": name, "target_type": "HTTP_CALLBACK", "target_config": {"url": url, "method": "POST"}, **fields}


def schedules(api, sink):
    today = datetime.date.today()
    api("PUT", "/v1/calendars/ledger-days", {"description": "days on which the ledger is open", "excluded_weekdays": [],
        "excluded": [{"date": str(today + datetime.timedelta(days=4)), "name": "Nationalfeiertag"},
                     {"date": str(today + datetime.timedelta(days=9)), "name": "Allerheiligen"}]}, expect=(200, 201))
    for name, cron, zone, queue, path in SCHEDULES:
        api("POST", "/v1/tasks", http_task(name, sink + path, cron_expression=cron, time_zone=zone, queue=queue))
    ledger = api("POST", "/v1/tasks", http_task(
        "nightly-ledger", sink + "/close-day", cron_expression="30 2 * * *", time_zone="Europe/Berlin", calendar="ledger-days",
        queue="ledger", priority=6, timeout_ms=900000, expect={"success_by": "06:00", "days": "MON-FRI"}, notify=["ops"], payload={"book": "EU", "post": True, "lines": [1, 2, {"x": None}]},
        retry={"max_attempts": 5, "base_delay_ms": 5000}))
    api("POST", "/v1/tasks/batch", [http_task(f"report-{n:03d}", sink + "/report", cron_expression=f"{(0, 0, 30, 0, 15, 5, 40)[n % 7]} {(6, 8, 3, 6, 9, 18, 0, 12)[n % 8]} * * *",
                                              time_zone="Europe/Berlin", queue="reports") for n in range(240)])
    return ledger


def traffic(api, sink):
    """What runs again and again: quick ones, slow ones, and some that need a second attempt."""
    beat = api("POST", "/v1/tasks", http_task("heartbeat", sink + "/delay/40/beat", interval_seconds=2))
    api("POST", "/v1/tasks", http_task("index-orders", sink + "/delay/800/index", interval_seconds=5, queue="rollups"))
    api("POST", "/v1/tasks", http_task("flaky-partner", sink + "/fail/1/partner", interval_seconds=15,
                                       retry={"max_attempts": 3, "backoff": "FIXED", "base_delay_ms": 3000, "jitter": "NONE"}))
    return beat


def gates(api, sink):
    """A slot that is taken, a paused queue, a paused task, tasks that wait for others."""
    api("POST", "/v1/tasks", http_task("month-close-eu", sink + "/delay/1800000/close", concurrency_key="ledger-eu", queue="ledger",
                                       timeout_ms=3600000))
    held = api("POST", "/v1/tasks", http_task("ledger-of-today", sink + "/close-day", concurrency_key="ledger-eu", queue="ledger",
                                              delay="2s"))
    api("PATCH", "/v1/queues/mail", {"paused": {"reason": "provider maintenance", "for": "2h"}})
    for n in range(12):
        api("POST", "/v1/tasks", http_task(f"mailing-{n}", sink + "/mail", queue="mail"))
    paused = api("POST", "/v1/tasks", http_task("export-of-old-bucket", sink + "/export", delay="1h"))
    api("POST", f"/v1/tasks/{paused['id']}/pause", {"reason": "the bucket moves", "for": "2h"})
    api("PUT", "/v1/queues/billing", {"max_dispatches_per_second": 5, "max_concurrent": 4})
    return held


def failures(api, sink):
    """Dead letters of three causes, and enough failures of one host that its breaker opens."""
    once = {"retry": {"max_attempts": 1}}
    for n in range(23):
        api("POST", "/v1/tasks", http_task(f"invoice-{48200 + n}", sink + "/status/422/invoices", queue="billing", **once))
    for n in range(6):
        api("POST", "/v1/tasks", http_task(f"export-{n}", sink + "/delay/3000/slow", timeout_ms=100, queue="reports", **once))
    for n in range(3):
        api("POST", "/v1/tasks", http_task(f"hook-{n}", sink + "/status/410/hook", **once))
    for n in range(30):
        api("POST", "/v1/tasks", http_task(f"charge-order-{991200 + n}", "http://127.0.0.1:9/charge", queue="billing",
                                           retry={"max_attempts": 50, "base_delay_ms": 500, "max_delay_ms": 5000}))


def notifications(api, sink):
    """A setting that tells the sink of failures. A server without notifications has none."""
    api("POST", "/v1/notification-settings", {"name": "ops", "on_failure": True, "on_recovered": True, "delivery_type": "HTTP_WEBHOOK",
        "delivery_config": {"url": sink + "/told"}, "group_wait": "1s"}, expect=(200, 201, 404))


def with_sink(value, sink):
    return json.loads(json.dumps(value).replace("{sink}", sink))


def workflows(api, sink):
    api("PUT", "/v1/workflow-definitions/settlement-daily", with_sink(SETTLEMENT, sink))
    run = api("POST", "/v1/workflows", {"workflow": "settlement-daily", "name": "settlement-daily", "deadline_seconds": 14400,
                                        "input": {"items": list(range(40)), "dedupe": False}})
    api("PUT", "/v1/workflow-definitions/erase-customer", {"steps": [
        {"name": "legal-ok", "await": {"signal": "legal-ok", "approvals": 2, "timeout": "8h"}},
        {"name": "erase", "depends_on": ["legal-ok"], "target_type": "NOOP"}]})
    erase = api("POST", "/v1/workflows", {"workflow": "erase-customer", "name": "erase-customer-8812", "input": {}})
    failing = api("POST", "/v1/workflows", {"name": "nightly-import", "definition": {"steps": [
        {"name": "download", "target_type": "NOOP"},
        {"name": "parse", "depends_on": ["download"], "target_type": "HTTP_CALLBACK", "retry": {"max_attempts": 2, "base_delay_ms": 100},
         "target_config": {"url": sink + "/status/500/parse"}},
        {"name": "load", "depends_on": ["parse"], "target_type": "NOOP"}]}})
    return {"run": run, "erase": erase, "failing": failing}


def hostile(api, sink):
    """Every field that a user may fill, filled with a text that would be markup if it were not text."""
    task = api("POST", "/v1/tasks", http_task(HOSTILE, sink + "/status/422/" + urllib.parse.quote(HOSTILE), task_type="x.y",
        concurrency_key=HOSTILE, dedupe_key=HOSTILE, payload={HOSTILE: HOSTILE}, metadata={HOSTILE: HOSTILE}, retry={"max_attempts": 1}))
    still = api("POST", "/v1/tasks", http_task("paused-by-" + HOSTILE, sink + "/x", delay="1h", expect={"within_seconds": 86400}))
    api("POST", f"/v1/tasks/{still['id']}/pause", {"reason": HOSTILE})
    api("PUT", "/v1/queues/hostile", {"max_concurrent": 1})
    api("PATCH", "/v1/queues/hostile", {"paused": {"reason": HOSTILE, "for": "2h"}})
    api("PUT", "/v1/calendars/hostile", {"description": HOSTILE, "excluded": [{"date": "2030-01-01", "name": HOSTILE}]}, expect=(200, 201))
    run = api("POST", "/v1/workflows", {"name": HOSTILE, "definition": {"steps": [{"name": "a", "target_type": "NOOP"}]},
                                        "input": {HOSTILE: HOSTILE}})
    return {"task": task, "run": run}


def fill(server, key, sink):
    """Fills a server. Returns the tasks and runs that pages are tried on."""
    api = Api(server, key)
    notifications(api, sink)
    found = {"ledger": schedules(api, sink), "held": gates(api, sink)}
    found["beat"] = traffic(api, sink)
    failures(api, sink)
    found |= workflows(api, sink)
    found["hostile"] = hostile(api, sink)
    return found


if __name__ == "__main__":
    made = fill(*sys.argv[1:4])
    print(json.dumps({name: value.get("id") or {k: v["id"] for k, v in value.items()} for name, value in made.items()}, indent=1))
