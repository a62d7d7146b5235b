"""Every action of the dashboard, three times: as the button does it, as curl and as a command line. Each on an object of its own, and the
same must come of it. Actions are what lib/command.js exports; one that is not in CASES fails the test."""

import datetime
import itertools
import json
import os
import re
import subprocess

import pytest

from conftest import BUILD, ROOT
from server import until

COMMANDS = ROOT / "src/dashboard/lib/command.js"
HELPERS = {"quote", "curl", "cli", "here", "reverse", "cliFilter", "listing"}
ACTION = """async ([name, args, pick]) => {
    const base = new URL('.', document.querySelector('script[type=module]').src);
    const command = await import(new URL('lib/command.js', base)), made = command[name](...args);
    const action = Array.isArray(made) ? made.find(a => a.label === pick) : made;
    return { ...action, as_curl: command.curl(action, location.origin), as_cli: command.cli(action) };
}"""
FAR = {"target_type": "NOOP", "target_config": {}, "delay": "1h"}
numbers = itertools.count(1)


class Replay:
    """How a case makes what it acts on, and looks at what came of it."""

    def __init__(self, alive, how):
        self.api, self.sink, self.how, self.n = alive.api, alive.sink_url, how, next(numbers)

    def name(self, word):
        return f"replay-{word}-{self.n}"

    def task(self, **fields):
        return self.api("POST", "/v1/tasks", {"name": self.name("task"), **FAR, **fields})

    def state(self, task):
        return self.api("GET", f"/v1/tasks/{task['id']}", expect=(200, 404)).get("status")

    def dead(self, count=1):
        """A dead letter, of a cause of its own: the cause is made of the host and the answer."""
        path, made = f"/status/{430 + self.n % 20}/replay", []
        for _ in range(count):
            made.append(self.api("POST", "/v1/tasks", {"name": self.name("dead"), "target_type": "HTTP_CALLBACK", "target_config": {"url": self.sink + path},
                                                       "retry": {"max_attempts": 1}}))
        until(lambda: all(self.state(t) == "FAILED" for t in made), why="they did not fail")
        return made[0]

    def run(self, steps=None):
        return self.api("POST", "/v1/workflows", {"name": self.name("run"), "definition": {"steps": steps or [
            {"name": "ok", "await": {"signal": "ok", "approvals": 1}}, {"name": "after", "depends_on": ["ok"], "target_type": "NOOP"}]}})

    def run_is(self, run, *wanted):
        status = lambda: self.api("GET", f"/v1/workflows/{run['id']}")
        until(lambda: status()["status"] in wanted, why=f"the run is not {wanted}")
        return status()["status"]

    def step_is(self, run, step, *wanted):
        of = lambda: {s["step"]: s["status"] for s in self.api("GET", f"/v1/workflows/{run['id']}/steps")["steps"]}
        until(lambda: of().get(step) in wanted, why=f"{step} is not {wanted}")
        return of()[step]

    def incident(self):
        """One of a setting of its own."""
        setting = self.api("POST", "/v1/notification-settings", {"name": self.name("setting"), "on_failure": True, "delivery_type": "HTTP_WEBHOOK",
                           "filter": {"name": self.name("dead")}, "delivery_config": {"url": self.sink + "/told"}, "group_wait": "0s"})
        self.dead()
        of = lambda: [i for i in self.api("GET", "/v1/incidents?limit=100")["incidents"] if i["setting"] == setting["id"]]
        until(of, why="no incident was opened")
        return setting, of()[0]


def acts_on_task(pick, now, before=None, **fields):
    def case(r):
        task = r.task(**fields)
        if before:
            r.api("POST", f"/v1/tasks/{task['id']}/{before}")
            task = r.api("GET", f"/v1/tasks/{task['id']}")
        yield "taskActions", [task], pick
        if now == "ended":
            until(lambda: r.state(task) == "COMPLETED", why="it did not run")
        yield r.state(task)
    return case


def pause_until(r):
    task = r.task()
    yield "pauseTask", [task, {"reason": "it's late", "until": "2h"}], None
    paused = r.api("GET", f"/v1/tasks/{task['id']}")["paused"]
    yield paused["reason"], bool(paused["until"])


def change_pause(r):
    """What is left empty is taken away."""
    task = r.task()
    paused = r.api("POST", f"/v1/tasks/{task['id']}/pause", {"reason": "late", "for": "1h"})
    yield "pauseTask", [paused, {"reason": "later", "until": ""}], None
    paused = r.api("GET", f"/v1/tasks/{task['id']}")["paused"]
    yield paused["reason"], paused["until"]


def retry(r):
    task = r.api("GET", f"/v1/tasks/{r.dead()['id']}")
    yield "taskActions", [task], "Retry"
    until(lambda: len(r.api("GET", f"/v1/tasks/{task['id']}/executions")["executions"]) == 2, why="it was not tried again")
    yield 2


def bulk(r):
    tasks = [r.task() for _ in range(3)]
    yield "bulk", ["pause", {"name": r.name("task"), "created_before": (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).isoformat()},
                   {"reason": "it's late", "until": "2h"}], None
    until(lambda: all(r.state(t) == "PAUSED" for t in tasks), why="they were not paused")
    yield [(t["paused"]["reason"], bool(t["paused"]["until"])) for t in (r.api("GET", f"/v1/tasks/{t['id']}") for t in tasks)]


def bulk_of_states(r):
    """A value with a comma is no pair of --filter."""
    tasks = [r.task() for _ in range(2)]
    yield "bulk", ["cancel", {"name": r.name("task"), "status": "SCHEDULED,PAUSED"}], None
    until(lambda: all(r.state(t) == "CANCELLED" for t in tasks), why="they were not cancelled")
    yield "CANCELLED"


def redrive(r):
    task = r.dead()
    cause = r.api("GET", f"/v1/dlq/{task['id']}")["cause"]
    yield "redrive", [cause, 50, 100, (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).isoformat()], None
    until(lambda: r.state(task) == "FAILED" and len(r.api("GET", f"/v1/tasks/{task['id']}/executions")["executions"]) == 2, why="it was not sent again")
    yield 2


def cancel_job(r):
    r.dead(3)
    letter = r.api("GET", f"/v1/tasks?name={r.name('dead')}&limit=1")["tasks"][0]
    cause = r.api("GET", f"/v1/dlq/{letter['id']}")["cause"]
    r.api("PATCH", "/v1/queues/default", {"paused": {"for": "1m"}})  # so that the first one does not end
    try:
        job = r.api("POST", "/v1/dlq/retry", {"filter": {"cause": cause}, "rate": 1, "max_failed_percent": 100})
        yield "cancelJob", [job], None
        until(lambda: r.api("GET", f"/v1/jobs/{job['id']}")["state"] == "CANCELLED", why="the job was not stopped")
        yield "CANCELLED"
    finally:
        r.api("PATCH", "/v1/queues/default", {"paused": False})


def archive(r):
    task = r.dead()
    yield "archive", [task["id"], "it's over"], None
    yield r.api("GET", f"/v1/dlq/{task['id']}")["resolution"]["reason"]


def retry_letter(r):
    task = r.dead()
    yield "retryLetter", [task["id"], {"target_config": {"url": r.sink + "/fine"}}], None
    until(lambda: r.state(task) == "COMPLETED", why="it was not tried again")
    yield "COMPLETED"


def queue(name, *args, before=None):
    def case(r):
        known = r.api("PUT", f"/v1/queues/{r.name('queue')}", {"max_concurrent": 7})
        if before:
            known = r.api("PATCH", f"/v1/queues/{known['name']}", before)
        yield name, [known if name == "setLimits" else known["name"], *args], None
        now = r.api("GET", f"/v1/queues/{known['name']}")
        paused = now["paused"] and (now["paused"].get("reason"), bool(now["paused"].get("until")))
        yield paused, [now[field] for field in ("max_dispatches_per_second", "max_burst", "max_concurrent", "weight")]
    return case


def on_run(name, before, *wanted, args=()):
    def case(r):
        run = r.run([{"name": "a", "target_type": "HTTP_CALLBACK", "target_config": {"url": r.sink + "/status/404/a"}, "retry": {"max_attempts": 1}}] if before == "fail" else None)
        r.run_is(run, "FAILED" if before == "fail" else "RUNNING")
        if before == "pause":
            r.api("POST", f"/v1/workflows/{run['id']}/pause")
        yield name, [run, *args], None
        if name == "retryRun":
            until(lambda: len(r.api("GET", f"/v1/tasks/{run['id']}/executions")["executions"]) >= 2 or r.api("GET", f"/v1/workflows/{run['id']}")["status"] == "RUNNING",
                  why="it was not retried")
        now = r.api("GET", f"/v1/workflows/{run['id']}")
        yield r.run_is(run, *wanted), now["paused"], now.get("pause", {}).get("reason")
    return case


def on_step(pick, step, *wanted):
    def case(r):
        run = r.run()
        r.run_is(run, "RUNNING")
        r.step_is(run, step, "BLOCKED")
        yield "stepActions", [run, {"step": step, "status": "BLOCKED"}], pick
        yield r.step_is(run, step, *wanted)
    return case


def signal(yes):
    def case(r):
        run = r.run()
        r.run_is(run, "RUNNING")
        r.step_is(run, "ok", "BLOCKED")
        yield "signal", [run["id"], "ok", yes], None
        yield r.run_is(run, "COMPLETED", "FAILED")
    return case


def close_breaker(r):
    """Of a host of its own, which nothing calls any more: it stays closed."""
    host = f"127.0.0.1:{20 + r.n % 400}"
    tasks = [r.task(target_type="HTTP_CALLBACK", target_config={"url": f"http://{host}/"}, delay="0s", retry={"max_attempts": 20, "base_delay_ms": 100}) for _ in range(12)]
    of = lambda: [b for b in r.api("GET", "/v1/breakers?limit=100")["breakers"] if b["host"] == host]
    until(of, why="the breaker did not open")
    for task in tasks:  # one that is being tried is refused, and cancelled when it waits again
        until(lambda task=task: r.api("POST", f"/v1/tasks/{task['id']}/cancel", expect=(200, 409)) and r.state(task) == "CANCELLED", why="it was not cancelled")
    yield "closeBreaker", [of()[0]], None
    yield len(of())


def on_incident(name, *args):
    def case(r):
        _, incident = r.incident()
        yield name, [incident, *args], None
        now = r.api("GET", f"/v1/incidents/{incident['id']}")
        yield bool(now["acknowledged_at"]), bool(now.get("muted_until"))
    return case


def resend(r):
    setting, _ = r.incident()
    of = lambda: [n for n in r.api("GET", "/v1/notifications?limit=100")["notifications"] if n["setting"] == setting["id"] and n["state"] == "SENT"]
    until(of, why="it was not told")
    message = of()[0]
    yield "resend", [message], None
    until(lambda: of() and of()[0]["attempts"] > message["attempts"], why="it was not told again")  # sent_at is that of the first time
    yield of()[0]["attempts"]


def send_test(r):
    setting = r.api("POST", "/v1/notification-settings", {"name": r.name("setting"), "on_failure": True, "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": r.sink + "/told"}})
    yield "testSetting", [setting], None
    yield "sent"


TOLD = {"delivery_type": "HTTP_WEBHOOK", "on_failure": True, "filter": {"queue": "mail*"}, "mode": "CHANGES", "after": 3, "group_wait": "20s", "group_window": "5m",
        "repeat_every": "4h", "max_per_hour": 60}


def settings(r):
    return {s["name"]: s for s in r.api("GET", "/v1/notification-settings?limit=100")["notification_settings"]}


def new_setting(r):
    yield "newSetting", [{"name": r.name("told"), "delivery_config": {"url": r.sink + "/told"}, **TOLD}], None
    made = settings(r)[r.name("told")]
    r.api("DELETE", f"/v1/notification-settings/{made['id']}")
    yield {field: made[field] for field in (*TOLD, "on_recovered", "delivery_config")}


RICH = {"mode": "EVERY", "after": 2, "group_window": "10m", "user_id": "u1", "on_missed": True, "filter": {"queue": "mail*", "name": "a b", "task_type": "x"},
        "steps": [{"after": "15m", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "http://127.0.0.1:9/x"}}]}


def new_rich_setting(r):
    """What has no option of its own is said with --set."""
    yield "newSetting", [{"name": r.name("told"), "delivery_config": {"url": r.sink + "/told", "secret": "whsec_" + "A" * 32}, **TOLD, **RICH}], None
    made = settings(r)[r.name("told")]
    r.api("DELETE", f"/v1/notification-settings/{made['id']}")
    yield {field: made[field] for field in (*TOLD, *RICH, "on_recovered", "delivery_config")}


def change_setting(r):
    made = r.api("POST", "/v1/notification-settings", {"name": r.name("told"), "delivery_config": {"url": r.sink + "/told"}, **TOLD})
    yield "changeSetting", [made, {"enabled": False, "max_per_hour": 7, "delivery_config": {"url": r.sink + "/other"}, **RICH}], None
    now = settings(r)[r.name("told")]
    r.api("DELETE", f"/v1/notification-settings/{made['id']}")
    yield {field: now[field] for field in ("enabled", "max_per_hour", "delivery_config", "version", *RICH)}


def mute_setting(time):
    def case(r):
        made = r.api("POST", "/v1/notification-settings", {"name": r.name("told"), "delivery_config": {"url": r.sink + "/told"}, **TOLD, "muted_until": "2099-01-01T00:00:00Z"})
        yield "muteSetting", [made, time], None
        now = settings(r)[r.name("told")]
        r.api("DELETE", f"/v1/notification-settings/{made['id']}")
        yield (now["muted_until"] or "")[:4] != "2099" and bool(now["muted_until"])
    return case


def remove_setting(r):
    made = r.api("POST", "/v1/notification-settings", {"name": r.name("told"), "delivery_config": {"url": r.sink + "/told"}, **TOLD})
    yield "removeSetting", [made], None
    yield r.name("told") in settings(r)


def revoke_key(tenant):
    def case(r):
        key = r.api("POST", "/v1/api-keys", {"name": r.name("key"), "scopes": ["tasks:read"], **({"tenant": tenant} if tenant != "default" else {})})
        yield "revokeKey", [{"id": key["id"], "tenant": tenant, "name": key["name"]}, "default"], None
        yield any(k["id"] == key["id"] for k in r.api("GET", f"/v1/api-keys?limit=200&tenant={tenant}")["keys"])
    return case


def new_key(r):
    now = datetime.datetime.now(datetime.timezone.utc).timestamp() * 1000
    yield "newKey", [{"name": r.name("new"), "scopes": ["tasks:read", "queues:read"], "days": "30"}, None, now], None
    key = next(k for k in r.api("GET", "/v1/api-keys?limit=200")["keys"] if k["name"] == r.name("new"))
    yield key["scopes"], key["expires_at"][:10]


def new_tenant(r):
    yield "newTenant", [{"name": r.name("tenant"), "max_pending": "12"}], None
    yield r.api("GET", f"/v1/tenants/{r.name('tenant')}")["max_pending"]


NEW = {"cron_expression": "30 2 * * *", "time_zone": "Europe/Berlin", "overlap_policy": "QUEUE_ONE", "queue": "mail", "priority": 7, "timeout_ms": 5000,
       "retry": {"max_attempts": 3}, "concurrency_key": "a b", "expect": {"success_by": "06:00", "days": "MON-FRI"}, "target_type": "HTTP_CALLBACK", "target_config": {"url": "http://127.0.0.1:9/x", "method": "PUT"}}
FIELDS = (*NEW, "calendar", "interval_seconds")


def create_task(r):
    yield "saveTask", [None, {"name": r.name("new"), **NEW}], None
    made = r.api("GET", f"/v1/tasks?name={r.name('new')}")["tasks"]
    yield len(made), {field: made[0].get(field) for field in FIELDS if field != "target_config"}, made[0]["target_config"]["url"], made[0]["target_config"]["method"]


def edit_task(r):
    task = r.api("POST", "/v1/tasks", {"name": r.name("edit"), "target_type": "NOOP", "target_config": {}, "cron_expression": "0 8 * * *"})
    yield "saveTask", [task, {"cron_expression": "10 3 * * *", "time_zone": "Asia/Tokyo", "priority": 2, "overlap_policy": "ALLOW", "timeout_ms": 7000}], None
    now = r.api("GET", f"/v1/tasks/{task['id']}")
    yield [now[field] for field in ("cron_expression", "time_zone", "priority", "overlap_policy", "timeout_ms", "version")]


def edit_in_full(r):
    """What has no option of its own is said with --set."""
    task = r.task(calendar=None, payload={"a": 1}, concurrency_key="k", retry={"max_attempts": 2})
    yield "saveTask", [task, {"payload": {"it's": [1, "\u00e4"]}, "concurrency_key": None, "retry": {**task["retry"], "max_attempts": 4}}], None
    now = r.api("GET", f"/v1/tasks/{task['id']}")
    yield [now.get(field) for field in ("payload", "concurrency_key", "retry", "version")]


def signing_keys(r):
    return {k["name"]: k for k in r.api("GET", "/v1/signing-keys?limit=100")["signing_keys"]}


def new_signing_key(r):
    yield "newSigningKey", [{"name": r.name("key"), "algorithm": "ED25519", "host": f"h{r.n}.example.com"}], None
    made = signing_keys(r)[r.name("key")]
    r.api("DELETE", f"/v1/signing-keys/{made['id']}")
    yield made["algorithm"], made["host"] == f"h{r.n}.example.com"


def rotate_signing_key(r):
    made = r.api("POST", "/v1/signing-keys", {"name": r.name("key"), "host": f"h{r.n}.example.com"})
    yield "rotateSigningKey", [made, "2h"], None
    now = signing_keys(r)[r.name("key")]
    r.api("DELETE", f"/v1/signing-keys/{made['id']}")
    yield len(now["older"]), now["version"]


def remove_signing_key(r):
    made = r.api("POST", "/v1/signing-keys", {"name": r.name("key"), "host": f"h{r.n}.example.com"})
    yield "removeSigningKey", [made], None
    yield r.name("key") in signing_keys(r)


def reads(name, *args, has):
    """A list or a view: the ids in it are the same."""
    def case(r):
        yield name, list(args), None
        yield has
    return case


def list_tasks(r):
    tasks = [r.task(queue=r.name("queue")) for _ in range(2)]
    yield "taskList", [{"search": r.name("task"), "queue": r.name("queue"), "status": "SCHEDULED", "occurrences": "true"}], None
    yield [task["id"] for task in tasks]


def shows(name, make):
    def case(r):
        thing = make(r)
        yield name, [thing if isinstance(thing, dict) else thing], None
        yield [thing["id"] if isinstance(thing, dict) else thing]
    return case


CASES = {
    "pause": acts_on_task("Pause", "PAUSED"), "pause until": pause_until, "change a pause": change_pause, "resume": acts_on_task("Resume", "SCHEDULED", before="pause"), "run now": acts_on_task("Run now", "ended"),
    "cancel": acts_on_task("Cancel…", "CANCELLED"), "retry": retry,
    "delete": acts_on_task("Delete…", None, before="cancel"),
    "bulk": bulk, "bulk of states": bulk_of_states, "re-drive": redrive, "stop a job": cancel_job, "archive": archive, "retry a letter": retry_letter,
    "pause a queue": queue("pauseQueue", {"reason": "it's late", "until": "2h"}), "resume a queue": queue("resumeQueue", before={"paused": True}),
    "limits": queue("setLimits", {"max_dispatches_per_second": "5", "max_burst": "9", "max_concurrent": "", "weight": "50"}),
    "close a breaker": close_breaker,
    "cancel a run": on_run("cancelRun", None, "CANCELLED"), "pause a run": on_run("pauseRun", None, "RUNNING", "PAUSED", args=({"reason": "it's late", "until": "2h"},)),
    "resume a run": on_run("resumeRun", "pause", "RUNNING"), "retry a run": on_run("retryRun", "fail", "FAILED"),
    "rerun": on_run("rerun", "fail", "FAILED", args=("a",)),
    "run a step": on_step("Run now", "after", "COMPLETED"), "skip a step": on_step("Skip", "after", "SKIPPED"), "complete a step": on_step("Force complete", "ok", "COMPLETED"),
    "approve": signal(True), "reject": signal(False),
    "acknowledge": on_incident("ackIncident"), "mute": on_incident("muteIncident", "2h"), "unmute": on_incident("muteIncident", ""), "resend": resend, "send a test": send_test,
    "make a setting": new_setting, "make a setting in full": new_rich_setting, "mute a setting": mute_setting("2h"), "unmute a setting": mute_setting(""), "change a setting": change_setting, "remove a setting": remove_setting,
    "revoke a key": revoke_key("default"), "revoke another tenant's key": revoke_key("acme"), "make a key": new_key, "make a tenant": new_tenant,
    "create a task": create_task, "edit a task": edit_task, "edit a task in full": edit_in_full,
    "make a signing key": new_signing_key, "rotate a signing key": rotate_signing_key, "remove a signing key": remove_signing_key,
    "list tasks": list_tasks, "list executions": reads("executionList", {"status": "FAILED,LOST", "queue": "billing", "error": "it's \"nothing\""}, has=[]), "list runs": reads("runList", {"status": "FAILED", "workflow": None}, has=[]),
    "show a queue": shows("showQueue", lambda r: r.api("PUT", f"/v1/queues/{r.name('queue')}", {"weight": 3})["name"]), "show a run": shows("showRun", lambda r: r.run()),
    "explain": acts_on_task("Explain", "SCHEDULED"),
}
ANSWERED = {"list tasks", "list executions", "list runs", "show a queue", "show a run", "explain"}  # they change nothing: what they print is looked at


@pytest.fixture(scope="module")
def acme(alive):
    alive.api("POST", "/v1/tenants", {"name": "acme"}, expect=(201, 409))


@pytest.fixture(scope="module")
def action(alive, chromium):
    """action(name, arguments, label): what the dashboard would do, and the commands for it."""
    page = chromium.new_page()
    page.goto(f"{alive.url}/ui/")
    yield lambda name, arguments, pick: page.evaluate(ACTION, [name, arguments, pick])
    page.close()


def shell(alive, command):
    """As somebody pastes it."""
    elsewhere = "http://127.0.0.1:9" if " --server " in command else alive.server.url  # what is copied names its server
    environment = {**os.environ, "BELFRY_KEY": alive.server.key, "BELFRY_SERVER": elsewhere, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command.replace(alive.url, alive.server.url)], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def perform(alive, action, how):
    if how == "button":
        body = alive.api(action["method"], action["path"], action.get("body"))
        return json.dumps(body)
    if how == "curl":
        text = shell(alive, action["as_curl"].replace("curl ", "curl -sS --fail-with-body ", 1))
        assert '"type":"https://' not in text, text
        return text
    assert action["as_cli"], "it has no command line"
    return shell(alive, action["as_cli"])


@pytest.mark.dashboard_all
@pytest.mark.parametrize("name", CASES)
def test_button_curl_and_command_line_do_the_same(alive, acme, action, name):
    came = {}
    for how in ("button", "curl", "CLI"):
        case = CASES[name](Replay(alive, how))
        printed = perform(alive, action(*next(case)), how)
        came[how] = next(case)
        case.close()
        if name in ANSWERED:
            assert all(word in printed for word in came[how] if came[how] != "SCHEDULED"), printed
            came[how] = len(came[how])
    assert came["button"] == came["curl"] == came["CLI"], came


def test_every_action_is_replayed():
    exported = set(re.findall(r"^export (?:const|function) (\w+)", COMMANDS.read_text(encoding="utf-8"), re.M)) - HELPERS
    named = set(re.findall(r'yield "(\w+)", \[|(?:reads|shows|queue|on_run|on_incident)\("(\w+)"', open(__file__, encoding="utf-8").read()))
    assert exported == {a or b for a, b in named}


@pytest.mark.dashboard_all
def test_commands_that_are_written_out_work(alive):
    """Those that pages show as text, such as the one that fills an empty page."""
    found = set()
    for path in (ROOT / "src/dashboard").rglob("*.js"):
        found |= {text.replace("\\'", "'") for text in re.findall(r"""'(belfry (?:[^'\\]|\\.)+)'|"(belfry [^"]+)\"""", path.read_text(encoding="utf-8")) for text in text if text}
    assert len(found) > 8
    for command in sorted(found):
        if "etl.yaml" not in command and "TASK" not in command:  # a file of the reader, a name of the reader
            shell(alive, command.replace(" ops ", " ops-by-command "))
