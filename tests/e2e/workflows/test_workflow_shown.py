"""How runs and steps are presented to the person who looks for the reason: what they wait for, since when, and what to type."""

import json
import pathlib
import re
import threading
import time

import pytest

from server import Reply, now_ms, to_ms, until
from test_workflow_cli import CHAIN, SIGNED, ask, done, write  # noqa: F401
from test_workflows_api import ended, http, put, run, status, steps

pytestmark = [pytest.mark.tenant, pytest.mark.text("what is said of runs; how they run is in test_workflow_*.py")]


@pytest.fixture
def plain(belfry, server, tmp_path):
    """A command of belfry that is not of workflows."""
    def call(*args, **more):
        env = {"HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir), "BELFRY_KEY": ""}
        return belfry(*args, env=env, **more)
    return call


def note(shown, step):
    """The row of a step in the table of `show`, without the marks of the critical path."""
    return next(line for line in shown.lines if line.lstrip("* ").split()[:1] == [step])


# ---- the critical path ----


def test_the_critical_path_goes_through_a_skipped_step(ask, write):
    path = write("cp.json", json.dumps({"steps": [
        {"name": "slow", "target_type": "NOOP"},
        {"name": "optional", "depends_on": ["slow"], "when": {"ref": "/input/opt", "op": "eq", "value": True}, "target_type": "NOOP"},
        {"name": "never", "depends_on": [{"step": "optional", "type": "MUST_FAIL"}], "target_type": "NOOP"},
        {"name": "finish", "depends_on": [{"step": "optional", "type": "MUST_NOT_FAIL"}], "target_type": "NOOP"}]}))
    for opt, chain in (("false", r"slow \S+ → finish \S+"), ("true", r"slow \S+ → optional \S+ → finish \S+")):
        name = f"opt-{opt}"
        done(ask("run", path, "--name", name, "--input", f'{{"opt": {opt}}}', "--wait"))
        shown = ask("show", name)
        assert re.search(rf"^Critical path \(\*\): {chain}$", shown.out, re.M), shown


# ---- what a step waits for ----


def test_a_paused_queue_is_named_for_the_run_the_step_and_the_task(ask, plain, write, client):
    done(plain("queue", "pause", "mail"))
    path = write("x.json", json.dumps({"steps": [
        {"name": "a", "target_type": "NOOP", "queue": "mail"}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"},
        {"name": "m", "target_type": "NOOP", "queue": "mail", "map": {"over": [1, 2]}}]}))
    made = ask("run", path, "-q").out.strip()
    until(lambda: "queue 'mail' is paused" in ask("show", made).out)
    shown = ask("show", made)
    assert note(shown, "a").endswith("queue 'mail' is paused") and note(shown, "b").endswith("waits for a"), shown
    assert "queue 'mail' is paused" in note(shown, "m"), shown
    assert "Ends: not before the queue 'mail' is resumed\n" in shown.out and "Ends now" not in shown.out
    found = steps(client, made)[("a", None, "STEP")]
    assert found["waits_for"] == {"gate": "queue_paused", "name": "mail", "run": None, "explanation": "queue 'mail' is paused"}
    assert "queue 'mail' is paused" in plain("explain", made).out
    assert "its queue mail is paused since " in plain("explain", found["id"]).out
    done(ask("show", made, "a"), "It does not go on: queue 'mail' is paused\n")
    task = plain("add", "-q", "--noop", "--queue", "mail").out.strip()
    assert "its queue mail is paused since " in plain("explain", task).out
    done(plain("queue", "resume", "mail"))
    assert ended(client, made)["status"] == "COMPLETED"


@pytest.mark.standalone("each process that runs tasks counts the calls that open a breaker")
@pytest.mark.own_server
def test_a_breaker_is_named_with_its_id_and_remedy(ask, plain, client, receiver):
    once = {"type": "ONE_TIME", "retry": {"max_attempts": 1}}
    release = threading.Event()
    receiver.answer("/fail", *[Reply(503, hold=release)] * 12)
    for _ in range(12):
        client.create(**once, **receiver.target("/fail"))
    receiver.wait("/fail", 12)
    release.set()
    breaker = until(lambda: client.get("/v1/breakers").json["breakers"])[0]
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "m", "map": {"over": [1, 2]}, **http(receiver, "/a")}]})["id"]
    held = until(lambda: (x := steps(client, made).get(("a", None, "STEP"))) and x["waits_for"])
    assert until(lambda: steps(client, made)[("m", None, "STEP")]["waits_for"])["name"] == breaker["id"]  # of its items
    assert held["gate"] == "host_breaker" and held["name"] == breaker["id"], (held, breaker)
    remedy = f"'belfry breakers close {breaker['id']}' closes it"
    assert remedy in held["explanation"] and remedy in plain("explain", made).out, held
    assert remedy in ask("show", made).out
    done(plain("breakers", "close", breaker["id"]))
    assert ended(client, made)["status"] == "COMPLETED"


def test_the_rate_of_a_queue_is_named(ask, plain, client):
    done(plain("queue", "set", "slow", "--rate", "0.01", "--burst", "1"))
    definition = {"steps": [*({"name": name, "target_type": "NOOP", "queue": "slow"} for name in "ab"),
                            {"name": "m", "target_type": "NOOP", "queue": "slow", "map": {"over": [1, 2], "max_concurrent": 1}}]}
    made = run(client, definition=definition)["id"]
    holds = lambda: [s["waits_for"] for s in steps(client, made).values() if s["waits_for"]]
    held = until(holds)[0]
    assert until(lambda: (x := steps(client, made).get(("m", None, "STEP"))) and x["waits_for"]) == held  # of its items
    assert (held["gate"], held["name"]) == ("queue_rate", "slow") and "queue 'slow' starts at most 0.01 a second" in held["explanation"], held
    assert held["explanation"] in plain("explain", made).out
    done(plain("queue", "set", "slow", "--rate", "0"))
    assert ended(client, made)["status"] == "COMPLETED"


def test_a_pause_is_told_by_the_commands_of_tasks(ask, plain, client):
    made = run(client, definition={"steps": [{"name": "sign", "await": {"signal": "go", "timeout": "1h"}}]})["id"]
    until(lambda: "awaits the signal go, 0 of 1 received" in ask("show", made).out)
    assert re.search(r"; its timeout is in .*: 'belfry workflow signal ", ask("show", made).out), ask("show", made)
    told = f"The run is paused: running steps finish, and no step starts. 'belfry resume {made}' lets it go on\n"
    assert told not in plain("show", made).out
    assert done(plain("pause", made)).out == f"{made} is RUNNING\n{told}"
    done(plain("show", made), told)
    done(plain("resume", made))
    assert told not in plain("show", made).out
    done(ask("cancel", made))


def test_an_await_that_times_out_in_a_pause_asks_for_no_signal(ask, client):
    made = run(client, definition={"steps": [{"name": "sign", "await": {"signal": "go", "timeout": "1s"}}]})["id"]
    until(lambda: "awaits the signal go, 0 of 1 received" in ask("show", made).out)
    done(ask("pause", made))
    until(lambda: "it takes no signals any more, and times out after the resume" in ask("show", made).out)
    assert "belfry workflow signal" not in ask("show", made).out
    done(ask("resume", made))
    assert ended(client, made)["status"] == "FAILED"


def test_a_cancel_says_what_is_left(ask, client, receiver):
    held, undo = threading.Event(), threading.Event()
    receiver.answer("/undo", Reply(hold=undo))
    made = run(client, definition={"steps": [
        {"name": "a", **http(receiver, "/a"), "compensate": http(receiver, "/undo")}, {"name": "w", "depends_on": ["a"], "await": {"signal": "go"}}]})["id"]
    until(lambda: status(client, made)["awaiting"])
    first = done(ask("cancel", made, "--compensate"))
    receiver.wait("/undo")
    again = done(ask("cancel", made, "--compensate"), "Its steps have ended, and those that are COMPLETED are being undone\n")
    assert "being stopped" not in again.out, (first, again)
    undo.set()
    ended(client, made)
    watched = ask("show", "--watch", made).out
    assert " a COMPLETED\n" in watched and " undo of a COMPLETED\n" in watched, watched


def test_a_stopped_run_names_the_worker_that_still_has_a_step(ask, plain, client):
    made = run(client, definition={"steps": [{"name": "a", "target_type": "WORKER", "queue": "jobs"}]})["id"]
    lease = until(lambda: client.post("/v1/leases", {"queue": "jobs", "max": 1, "wait_seconds": 5, "worker": "w1"}).json["leases"])[0]
    assert steps(client, made)[("a", None, "STEP")]["waits_for"] is None
    done(ask("cancel", made), "Its steps are being stopped\n")
    step = steps(client, made)[("a", None, "STEP")]
    assert step["waits_for"]["gate"] == "leased", step
    told = "the run was stopped, and the worker 'w1' was asked to end it; its lease ends at "
    assert told in note(ask("show", made), "a") and told in plain("explain", made).out, plain("explain", made)
    assert "its run was stopped, and the worker was asked to end it" in plain("explain", step["id"]).out
    client.post(f"/v1/leases/{lease['id']}/fail", {"error": "ended"})
    assert ended(client, made)["status"] == "CANCELLED"


def test_a_concurrency_key_is_named_with_its_holder(ask, plain, write, client, receiver):
    held = threading.Event()
    receiver.answer("/slow", Reply(hold=held))
    first = run(client, name="first", definition={"steps": [{"name": "a", "concurrency_key": "k", **http(receiver, "/slow")}]})
    receiver.wait("/slow")
    second = run(client, name="second", definition={"steps": [{"name": "b", "target_type": "NOOP", "concurrency_key": "k"}]})["id"]
    until(lambda: status(client, second)["by_status"].get("BLOCKED"))
    shown = ask("show", second)
    assert note(shown, "b").endswith("waits for key 'k', held by step 'a' of the run 'first'"), shown
    assert "Ends: not before the key 'k' is free\n" in shown.out
    assert "'b' (BLOCKED, waits for key 'k', held by step 'a' of the run 'first')" in plain("explain", "second").out
    held.set()
    assert ended(client, second)["status"] == ended(client, first["id"])["status"] == "COMPLETED"


def test_a_paused_run_says_so_in_each_line(ask, plain, write, client):
    made = run(client, definition={"steps": [{"name": "a", "target_type": "NOOP", "delay": "1h"}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"}]})["id"]
    until(lambda: client.get(f"/v1/workflows/{made}").json["started_at"])
    done(ask("pause", made))
    shown = ask("show", made)
    assert "the run is paused" in note(shown, "a") and "Ends: not before the run is resumed\n" in shown.out, shown
    explained = client.get(f"/v1/tasks/{made}/explain").json
    assert explained["gate"] == "paused" and "; steps that run finish, and no other starts; resume it" in explained["explanation"], explained
    step = client.get(f"/v1/tasks/{steps(client, made)[('a', None, 'STEP')]['id']}/explain").json
    assert "its run is paused; resume the run" in step["explanation"], step
    done(ask("cancel", made))


def test_a_filter_by_status_means_the_status_that_lists_of_runs_show(ask, client):
    later = {"steps": [{"name": "a", "target_type": "NOOP", "delay": "1h"}]}
    open_, held, over, waits, put_off = (run(client, definition=later, name=name, delay=delay)["id"] for name, delay in (
        ("open", "0s"), ("held", "0s"), ("over", "0s"), ("waits", "1h"), ("put-off", "1h")))
    for made in (open_, held, over):
        until(lambda: client.get(f"/v1/workflows/{made}").json["started_at"])
    for made in (held, over, put_off):
        done(ask("pause", made))
    done(ask("cancel", over))
    assert ended(client, over)["status"] == "CANCELLED"
    names = {open_: "open", held: "held", over: "over", waits: "waits", put_off: "put-off"}
    for status, wanted in (("PAUSED", {"held", "put-off"}), ("RUNNING", {"open"}), ("SCHEDULED", {"waits"}), ("CANCELLED", {"over"}),
                           ("ACTIVE", {"open", "waits"}), ("PAUSED,CANCELLED", {"held", "put-off", "over"}),
                           ("RUNNING,PAUSED", {"open", "held", "put-off"})):
        found, cursor = [], ""
        while cursor is not None:
            page = client.get(f"/v1/workflows?status={status}&limit=1{cursor}").json
            found += [names[x["id"]] for x in page["workflows"]]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        assert (len(found), set(found)) == (len(wanted), wanted), status
        rows = [line.split() for line in ask("list", "--status", status).lines[1:]]
        shown = {"RUNNING", "SCHEDULED"} if status == "ACTIVE" else set(status.split(","))
        assert {row[1] for row in rows} == wanted and {row[3] for row in rows} == shown, rows
    for made in (open_, held, waits, put_off):
        done(ask("cancel", made))


def test_a_sub_workflow_that_is_paused_names_the_run_that_a_resume_takes(ask, plain, client):
    put(client, "inner", {"steps": [{"name": "sign", "await": {"signal": "go"}}]})
    put(client, "middle", {"steps": [{"name": "deep", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}]})
    made = run(client, definition={"steps": [{"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "middle"}}]})["id"]
    sub = until(lambda: steps(client, made).get(("sub", None, "STEP"), {}).get("id"))
    until(lambda: client.get(f"/v1/workflows/{sub}").json.get("started_at"))
    deep = until(lambda: steps(client, sub).get(("deep", None, "STEP"), {}).get("id"))
    until(lambda: client.get(f"/v1/workflows/{deep}").json.get("started_at"))
    until(lambda: status(client, deep)["awaiting"])
    done(ask("pause", made, "--reason", "the month ends"))
    for at, name in ((made, "sub"), (sub, "deep")):
        line = f"The run is paused with the run that it is a step of: running steps finish, and no step starts. 'belfry resume {made}' lets them go on\n"
        done(ask("show", at, name), line)
        done(plain("show", {"sub": sub, "deep": deep}[name]), line)
    done(ask("show", deep), f"It is paused: 'belfry workflow resume {made}' lets it go on\n")
    explained = client.get(f"/v1/tasks/{deep}/explain").json
    assert explained["gate"] == "paused" and re.search(
        r"the run around it is paused since \S+( by .*)?: the month ends; steps that run finish, and no other starts; "
        f"resume the run {made}", explained["explanation"]), explained
    done(plain("resume", made))
    assert "paused" not in plain("show", deep).out
    done(ask("cancel", made))


def test_a_refusal_names_what_is_possible_for_this_run(ask, client):
    steps_ = [{"name": "m", "target_type": "NOOP", "map": {"over": [1, 2]}}, {"name": "w", "await": {"signal": "go"}}]
    made = run(client, definition={"steps": steps_})["id"]
    until(lambda: steps(client, made).get(("m", None, "STEP"), {}).get("status") == "COMPLETED")
    for place in ("m", "m/0"):
        assert "is COMPLETED and cannot be run now; wait for the end of the run, or cancel it, then rerun it from the step" in \
            ask("step", "run-now", made, place).err
    done(ask("cancel", made))
    ended(client, made)
    assert "the run is CANCELLED and cannot be resumed; retry it, rerun it, or start a new run" in ask("resume", made).err
    done(ask("retry", made))
    done(ask("cancel", made))
    later = run(client, definition={"steps": steps_}, delay="1h")["id"]
    out = done(ask("pause", later, "--until", "2h")).out
    assert re.fullmatch(f"Run {later} is PAUSED: it does not start before its pause ends\nThat is in (2h|1h59m), \\S+ \\S+, "
                        f"or with 'belfry workflow resume {later}'\n", out), out
    done(ask("cancel", later))
    assert "retry it, rerun it" in ask("resume", later).err
    done(ask("retry", later))
    done(ask("cancel", later))


def test_a_pause_and_the_deadline_that_comes_all_the_same_are_both_told(ask, plain, write, client):
    put(client, "inner", {"steps": [{"name": "sign", "await": {"signal": "approve"}}]})
    made = run(client, deadline_seconds=3600, definition={"steps": [
        {"name": "a", "target_type": "NOOP", "delay": "30m"}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"},
        {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}]})["id"]
    until(lambda: "'approve' in run" in ask("show", made).out)
    deadline = client.get(f"/v1/workflows/{made}").json["deadline_at"]
    told = client.get(f"/v1/tasks/{made}/explain").json
    assert told["explanation"].endswith(f". Its deadline is {deadline}: if it is not over then, it is stopped and FAILED"), told
    done(ask("pause", made))
    told = client.get(f"/v1/tasks/{made}/explain").json
    assert told["gate"] == "paused" and "resume it. Then it waits for " in told["explanation"], told
    assert f". Its deadline is {deadline}: if it is not over then, also if it is still paused, it is stopped and FAILED" in told["explanation"], told
    assert [g["until"] for g in told["gates"] if g["gate"] == "deadline"] == [deadline], told
    done(ask("show", made), "lets it go on; its deadline, in 59m", ", stops it all the same\n")
    inner = steps(client, made)[("sub", None, "STEP")]["id"]
    rows = {**steps(client, made), **steps(client, inner)}
    for step in ("a", "b", "sign"):
        told = client.get(f"/v1/tasks/{rows[(step, None, 'STEP')]['id']}/explain").json
        assert "its run is paused; resume the run" in told["explanation"], told
        assert f"The deadline of its run is {deadline}: if it is not over then, also if it is still paused, it is cancelled" in told["explanation"], told
    done(ask("cancel", made))
    assert "deadline" not in client.get(f"/v1/tasks/{made}/explain").json["explanation"]


def test_who_decided_is_told_with_the_name_and_the_key(ask, write, client):
    keys = [client.post("/v1/api-keys", {"name": "ann", "scopes": ["workflows:signal"]}).json for _ in range(2)]
    made = run(client, definition={"steps": [{"name": "sign", "await": {"signal": "ok", "approvals": 4}}]})["id"]
    until(lambda: status(client, made)["awaiting"])
    for key in keys:
        done(ask("signal", made, "ok", "--key", key["key"]))
    client.post(f"/v1/workflows/{made}/signals/ok", {"by": "eve"})
    senders = status(client, made)["awaiting"][0]["senders"]
    assert [(x["name"], x["key"]) for x in senders] == [("ann", keys[0]["id"]), ("ann", keys[1]["id"]), ("eve", None)], senders
    shown = ask("show", made).out
    assert all(re.search(f"^  approved by ann, key {key['id']}, (now|.* ago), ", shown, re.M) for key in keys), shown
    assert re.search("^  approved by eve, (now|.* ago), ", shown, re.M), shown
    done(ask("signal", made, "ok", "--reject", "--key", client.post("/v1/api-keys", {"name": "bob", "scopes": ["workflows:signal"]}).json["key"]))
    assert re.search(r"rejected by bob \(key [^)]+\)", ended(client, made)["last_error"])


def test_an_outer_run_says_what_the_runs_within_it_wait_for(ask, plain, write, client):
    put(client, "inner", {"steps": [{"name": "sign", "await": {"signal": "approve"}}]})
    put(client, "middle", {"steps": [{"name": "deep", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}}]})
    made = run(client, definition={"steps": [
        {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "middle"}}, {"name": "own", "await": {"signal": "go", "approvals": 2}}]})["id"]
    until(lambda: "waits for signal 'approve' in run " in ask("show", made).out)
    shown = ask("show", made)
    held = steps(client, made)[("sub", None, "STEP")]["waits_for"]
    assert note(shown, "sub").endswith(f"waits for signal 'approve' in run {held['run']}"), shown
    assert note(shown, "own").endswith("waits for signal 'go', 0 of 2 received")
    assert f"Ends: not before the signal 'approve' in run {held['run']} and the signal 'go'\n" in shown.out
    assert "'sub' (RUNNING, waits for signal 'approve' in run " in plain("explain", made).out
    assert steps(client, made)[("sub", None, "STEP")]["waited_ms"] is not None  # it runs
    wrong = ask("signal", made, "approve")
    assert wrong.code == 1 and f"no step of this run awaits a signal 'approve'; the run {held['run']} within it does: send it there" in wrong.err, wrong
    done(ask("pause", made))
    assert note(ask("show", made), "sub").endswith("the run is paused")
    explained = plain("explain", made).out
    assert "resume it. Then it waits for 2 of 2 steps: " in explained and "When" not in explained, explained
    done(ask("resume", made))
    done(ask("signal", held["run"], "approve"))
    until(lambda: steps(client, made)[("sub", None, "STEP")]["status"] == "COMPLETED")
    done(ask("cancel", made))


def test_the_end_is_estimated_by_earlier_runs_of_the_same_content(ask, write, client, receiver):
    first_held, held = threading.Event(), threading.Event()
    receiver.answer("/a", Reply(hold=first_held), Reply(hold=held))
    path = write("x.json", json.dumps({"steps": [{"name": "a", **http(receiver, "/a")}]}))  # it has no name
    first = ask("run", path, "-q").out.strip()
    done(ask("show", first), "When it ends cannot be estimated: no earlier run of the same definition is COMPLETED\n")
    first_held.set()
    assert ended(client, first)["status"] == "COMPLETED"
    second = ask("run", path, "-q").out.strip()
    until(lambda: len(receiver.to("/a")) == 2)
    done(ask("show", second), "if it goes as the last completed run\n")
    held.set()
    assert ended(client, second)["status"] == "COMPLETED"


# ---- how long it waited ----


def test_the_time_waited_ends_with_the_first_start(ask, client, receiver):
    receiver.answer("/a", Reply(status=500), Reply())
    retry = {"max_attempts": 2, "base_delay_ms": 700, "backoff": "FIXED", "jitter": "NONE"}
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a"), "retry": retry}]})["id"]
    waits = until(lambda: (x := steps(client, made).get(("a", None, "STEP"))) and x["due_at"] and x)
    assert ended(client, made)["status"] == "COMPLETED"
    step = steps(client, made)[("a", None, "STEP")]
    assert step["attempts"] == 2 and step["waited_ms"] == waits["waited_ms"] < 700 <= step["duration_ms"], (waits, step)
    assert step["released_at"] == waits["released_at"]


def test_the_time_in_a_paused_queue_is_time_waited(ask, plain, client):
    done(plain("queue", "pause", "late"))
    made = run(client, definition={"steps": [
        {"name": "a", "target_type": "NOOP", "queue": "late"}, {"name": "m", "target_type": "NOOP", "queue": "late", "map": {"over": [1, 2]}}]})["id"]
    before = until(lambda: (x := steps(client, made)) and len(x) >= 2 and x)
    until(lambda: ask("show", made).out.count("queue 'late' is paused") == 2)
    until(lambda: now_ms() > to_ms(before[("a", None, "STEP")]["released_at"]) + 150)
    done(plain("queue", "resume", "late"))
    assert ended(client, made)["status"] == "COMPLETED"
    after = steps(client, made)
    for name in "am":
        old, new = before[(name, None, "STEP")], after[(name, None, "STEP")]
        assert new["released_at"] == old["released_at"] and new["started_at"] and new["waited_ms"] is not None, (old, new)
    assert after[("a", None, "STEP")]["waited_ms"] > 100
    for (name, item, _), step in after.items():
        history = client.get(f"/v1/tasks/{step['id']}/executions").json["executions"]
        assert all(x["delay_ms"] >= 0 for x in history), (name, item, history)


def test_a_step_released_during_a_pause_waits_from_there_on(ask, client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"}]})["id"]
    receiver.wait("/a")
    done(ask("pause", made))
    begun = steps(client, made)[("b", None, "STEP")]
    assert begun["released_at"] is None
    time.sleep(0.3)
    held.set()
    until(lambda: steps(client, made)[("a", None, "STEP")]["status"] == "COMPLETED")
    done(ask("resume", made))
    assert ended(client, made)["status"] == "COMPLETED"
    a, b = (steps(client, made)[(x, None, "STEP")] for x in "ab")
    assert b["released_at"] >= a["completed_at"] and a["duration_ms"] >= 300, (a, b)
    execution = client.get(f"/v1/tasks/{b['id']}/executions").json["executions"][0]
    assert execution["delay_ms"] <= b["waited_ms"] + 5, (b, execution)


def test_the_time_waited_ends_with_the_first_start_despite_run_now(ask, client, receiver):
    receiver.answer("/a", Reply(status=500), Reply(status=500), Reply())
    retry = {"max_attempts": 3, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a"), "retry": retry}]})["id"]
    first = until(lambda: (x := steps(client, made).get(("a", None, "STEP"))) and x["due_at"] and x)
    time.sleep(0.2)
    done(ask("step", "run-now", made, "a"))
    until(lambda: (x := steps(client, made)[("a", None, "STEP")])["attempts"] == 2 and x["due_at"])
    done(ask("step", "run-now", made, "a"))
    assert ended(client, made)["status"] == "COMPLETED"
    step = steps(client, made)[("a", None, "STEP")]
    assert step["attempts"] == 3 and step["waited_ms"] == first["waited_ms"] and step["duration_ms"] >= 200, (first, step)
    assert step["released_at"] == first["released_at"]


def test_the_time_of_a_sub_workflow_counts_all_its_attempts(client, receiver):
    receiver.answer("/a", Reply(status=500), Reply())
    put(client, "inner", {"steps": [{"name": "a", **http(receiver, "/a"), "retry": {"max_attempts": 1}}]})
    retry = {"max_attempts": 2, "base_delay_ms": 400, "backoff": "FIXED", "jitter": "NONE"}
    made = run(client, definition={"steps": [{"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "inner"}, "retry": retry}]})["id"]
    assert ended(client, made)["status"] == "COMPLETED"
    step = steps(client, made)[("sub", None, "STEP")]
    assert step["attempts"] == 2 and step["waited_ms"] < 400 <= step["duration_ms"], step


def test_the_delay_of_a_retried_run_counts_from_its_attempt(client, receiver):
    receiver.answer("/a", Reply(status=400), Reply(status=400), Reply())
    retry = {"max_attempts": 2, "base_delay_ms": 500, "backoff": "FIXED", "jitter": "NONE"}
    made = run(client, retry=retry, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})["id"]
    assert ended(client, made)["status"] == "FAILED"
    assert client.post(f"/v1/workflows/{made}/retry", {}).status == 200
    assert ended(client, made)["status"] == "COMPLETED"
    history = client.get(f"/v1/tasks/{made}/executions").json["executions"]
    assert len(history) == 3 and all(0 <= x["delay_ms"] < 400 for x in history), history


@pytest.mark.parametrize("action", ["force-complete", "skip"])
def test_an_await_that_a_user_ended_has_no_duration_and_names_the_key(ask, belfry, server, client, tmp_path, action):
    key = client.post("/v1/api-keys", {"name": "night shift", "scopes": ["workflows:write", "workflows:read"]}).json
    made = run(client, definition={"steps": [{"name": "w", "await": {"signal": "go"}}]})["id"]
    until(lambda: status(client, made)["awaiting"])
    done(ask("step", action, made, "w", "--key", key["key"]))
    ended(client, made)
    step = steps(client, made)[("w", None, "STEP")]
    assert (step["duration_ms"], step["settled_by"], step["settled_by_name"]) == (None, key["id"], "night shift"), step
    done(ask("show", made, "w"), f"The API key 'night shift' ({key['id']}) decided on it by hand\n")
    assert note(ask("show", made), "w").lstrip("* ").split()[3] == "-", ask("show", made)


def test_a_run_does_not_end_before_the_next_attempt_of_an_item(ask, write, client, receiver):
    receiver.answer("/a", Reply(), Reply(status=500), Reply())
    retry = {"max_attempts": 2, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}
    path = write("x.json", json.dumps({"steps": [{"name": "m", "map": {"over": [1]}, "retry": retry, **http(receiver, "/a")}]}))
    assert ended(client, ask("run", path, "-q").out.strip())["status"] == "COMPLETED"
    made = ask("run", path, "-q").out.strip()
    until(lambda: any(s["due_at"] for s in steps(client, made).values()))
    shown = done(ask("show", made), "Ends: not before in ", ", when a step or an item of it starts\n")
    assert "Ends now" not in shown.out and "should have ended" not in shown.out, shown
    done(ask("cancel", made))


def test_each_end_of_a_compensation_has_its_own_start(client, receiver):
    receiver.answer("/undo", Reply(status=400), Reply(status=400))
    receiver.answer("/b", Reply(status=400))
    made = run(client, definition={"steps": [{"name": "a", "compensate": http(receiver, "/undo"), **http(receiver, "/a")},
                                             {"name": "b", "depends_on": ["a"], **http(receiver, "/b")}]})["id"]
    ended(client, made)
    time.sleep(0.3)
    assert client.post(f"/v1/workflows/{made}/retry", {}).status == 200
    history = lambda: [x for x in client.get(f"/v1/tasks/{made}/executions").json["executions"] if x["completed_at"]]
    until(lambda: len(history()) == 2)
    assert client.post(f"/v1/workflows/{made}/steps/a/force-complete", {}).status == 200
    until(lambda: len(history()) == 3)
    assert ended(client, made)["compensation"] == "COMPLETE"
    rows = history()
    assert len({x["started_at"] for x in rows}) == 3 and all(0 <= x["delay_ms"] < 250 for x in rows), rows
    shown, task = client.get(f"/v1/workflows/{made}").json, client.task(made)
    assert shown["started_at"] == task["started_at"] == max(x["started_at"] for x in rows), (shown, task, rows)


# ---- the commands ----


def test_a_rerun_takes_a_name_and_prints_only_its_id(ask, client):
    made = run(client, name="first", definition={"steps": [{"name": "a", "target_type": "NOOP"}]})["id"]
    ended(client, made)
    again = done(ask("rerun", "first", "--from", "a", "--name", "second", "--quiet")).out.strip()
    assert ended(client, again)["name"] == "second" and again != made
    assert client.post(f"/v1/workflows/{made}/rerun", {"from": "a", "name": ""}).status == 400


def test_a_run_that_a_dedupe_key_finds_has_its_result(ask, write, client):
    path = write("x.json", json.dumps({"steps": [{"name": "a", "target_type": "NOOP"}], "result": {"n": {"$ref": "/input"}}}))
    args = ("run", path, "--input", "7", "--dedupe-key", "once", "--wait")
    done(ask(*args), '{"n":7}\n')
    done(ask(*args), "exists already", "It is COMPLETED\n", '{"n":7}\n')


def test_the_list_of_steps_says_what_they_wait_for(ask, client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held))
    made = run(client, definition={"steps": [
        {"name": "a", **http(receiver, "/a")}, {"name": "w", "await": {"signal": "go"}}, {"name": "later", "target_type": "NOOP", "delay": "1h"}]})["id"]
    receiver.wait("/a")
    until(lambda: status(client, made)["awaiting"])
    done(ask("step", "force-complete", made, "later"))
    listed = done(ask("steps", made))
    assert listed.lines[0].split()[-1] == "NOTE" and note(listed, "w").endswith("waits for signal 'go'"), listed
    assert note(listed, "later").endswith("completed by hand") and note(listed, "a").split()[4] != "-", listed
    held.set()
    done(ask("cancel", made))


def test_a_wrong_name_of_a_definition_is_told_with_the_right_one(ask, client):
    put(client, "etl", {"steps": [{"name": "a", "target_type": "NOOP"}]})
    assert "no workflow is named 'etll'; did you mean 'etl'?" in ask("run", "etll").err
    assert "workflow 'etl' has no version 9; its latest is 1" in ask("graph", "etl", "--version", "9").err
    wrong = ask("graph", "nope")
    assert wrong.code == 1 and "Nor is it the name of a definition: 'belfry workflow definitions' lists these\n" in wrong.err, wrong


def test_small_words_of_the_commands(ask, write, client):
    made = run(client, definition={"steps": [{"name": "a", "target_type": "NOOP"}]}, delay="1h")["id"]
    assert ask("pause", made).lines[0] == f"Run {made} is PAUSED: it does not start before it is resumed"
    wrong = ask("step", "force-complete", made, "a", "--output", '{"x":')
    assert wrong.code == 2 and "--output is not valid JSON" in wrong.err and "at 'x'" in wrong.err, wrong
    path = write("x.json", json.dumps({"steps": [{"name": "a", "target_type": "NOOP", "delay": "1h"}]}))
    assert ended(client, done(ask("run", path, "-q", "--deadline", "500ms")).out.strip())["status"] == "FAILED"
    done(ask("cancel", made))


# ---- what a key may do ----


def test_a_key_that_only_writes_is_told_before_a_run_starts(belfry, server, client, write, tmp_path):
    key = client.post("/v1/api-keys", {"name": "w", "scopes": ["workflows:write"]}).json["key"]
    env = {"HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir), "BELFRY_KEY": key}
    path = write("x.json", json.dumps({"steps": [{"name": "a", "target_type": "NOOP"}]}))
    refused = belfry("workflow", "run", path, "--wait", "--name", "never", env=env)
    assert refused.code == 1 and "--wait needs a key with the scope 'workflows:read'; nothing was started" in refused.err, refused
    assert client.get("/v1/workflows?name=never").json["workflows"] == []
    done(belfry("workflow", "run", path, "-q", env=env))
    put(client, "old", {"steps": [{"name": "a", "target_type": "NOOP"}]})
    done(belfry("workflow", "rm", "old", env=env))
    assert client.get("/v1/workflow-definitions/old").status == 404


# ---- who approves ----


def test_nobody_approves_as_a_key_and_in_its_name(client):
    step = {"name": "w", "await": {"signal": "go", "approvals": 2}}
    made = run(client, definition={"steps": [step], "result": {"$ref": "/steps/w/output"}})["id"]
    path, key = f"/v1/workflows/{made}/signals/go", client.post("/v1/api-keys", {"name": "ann4", "scopes": ["workflows:signal"]}).json
    for by in ("ann4", key["id"], "cert:ann"):
        refused = client.post(path, {"by": by})
        assert refused.status == 409 and "sends its own signals" in refused.json["detail"], refused.json
    assert client.post(path, {"by": "eve"}).json["received"] == 1
    late = client.post("/v1/api-keys", {"name": "eve", "scopes": ["workflows:signal"]}).json
    send = lambda k: client.post(path, {}, headers={"Authorization": f"Bearer {k['key']}"}, auth=False)
    refused = send(late)
    assert refused.status == 409 and "another key has sent it in the name 'eve'" in refused.json["detail"], refused.json
    assert send(key).json["received"] == 2
    signed = ended(client, made)["result"]
    assert [(x["by"], x.get("key")) for x in signed] == [("eve", None), ("ann4", key["id"])], signed


@pytest.mark.standalone("it is killed")
@pytest.mark.own_server
def test_a_killed_server_does_not_change_the_time_waited(server, client, receiver):
    held = threading.Event()
    receiver.answer("/a", Reply(hold=held), Reply())
    made = run(client, definition={"steps": [{"name": "a", **http(receiver, "/a")}]})["id"]
    receiver.wait("/a")
    before = steps(client, made)[("a", None, "STEP")]
    server.kill()
    held.set()
    server.start()
    assert ended(client, made, 30)["status"] == "COMPLETED"
    after = steps(client, made)[("a", None, "STEP")]
    assert after["released_at"] == before["released_at"] and abs(after["waited_ms"] - before["waited_ms"]) < 50, (before, after)
    assert after["waited_ms"] + after["duration_ms"] >= 100


# ---- one run for one key ----


def test_a_dedupe_key_that_is_taken_is_told(ask, write, client):
    ask("apply", write("chain.yaml", CHAIN))
    first = ask("run", "chain", "--dedupe-key", "today", "-q").out.strip()
    again = done(ask("run", "chain", "--dedupe-key", "today"))
    assert again.lines[:2] == [first, f"Run {first} exists already (dedupe key 'today'): no other was started"], again
    assert ask("run", "chain", "--dedupe-key", "today", "-q").out == first + "\n"
    found = json.loads(ask("run", "chain", "--dedupe-key", "today", "--json").out)
    assert found["id"] == first and found["deduplicated"] is True
    later = json.loads(ask("run", "chain", "--dedupe-key", "tomorrow", "--in", "1h", "--json").out)
    assert "deduplicated" not in later and "deduplicated" not in json.loads(ask("cancel", later["id"], "--json").out)


def test_a_run_that_was_replaced_says_so(ask, write):
    ask("apply", write("chain.yaml", CHAIN))
    first = ask("run", "chain", "--dedupe-key", "today", "--in", "1h", "-q").out.strip()
    again = done(ask("run", "chain", "--dedupe-key", "today", "--in", "30m", "--set", 'dedupe_action="REPLACE"'))
    assert again.lines[1].startswith(f"Run {first} exists already") and "input were replaced" in again.lines[1], again
    ask("cancel", first)


def test_a_paused_run_that_is_cancelled_asks_for_no_resume(ask, plain, client):
    made = client.post("/v1/workflows", {"definition": {"steps": [{"name": "a", "target_type": "WORKER", "queue": "jobs"}]}}).json["id"]
    lease = until(lambda: client.post("/v1/leases", {"queue": "jobs", "max": 1, "wait_seconds": 5}).json["leases"])[0]
    ask("pause", made)
    for text in (ask("cancel", made).out, ask("show", made).out, plain("explain", made).out):
        assert "resume" not in text and "stopped" in text, text
    assert client.post(f"/v1/leases/{lease['id']}/fail", {"error": "no"}).status < 300
    until(lambda: client.get(f"/v1/workflows/{made}").json["status"] == "CANCELLED")


def test_a_run_that_is_paused_between_its_attempts_says_both(ask, plain, client, receiver):
    receiver.answer("/a", Reply(status=400))
    made = client.post("/v1/workflows", {"definition": {"steps": [{"name": "a", "target_config": {"url": receiver.url("/a")}}]}, "deadline_seconds": 600,
                                         "retry": {"max_attempts": 2, "base_delay_ms": 60000, "backoff": "FIXED", "jitter": "NONE"}}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{made}").json["attempts"] == 1)
    assert [x["status"] for x in client.get(f"/v1/tasks/{made}/executions").json["executions"]] == ["FAILED"]
    ask("pause", made)
    assert "its steps wait for the resume" in ask("show", made).out
    assert "; its next attempt is due at" in plain("explain", made).out
    ask("cancel", made)


def test_the_deadline_is_named_with_what_holds_a_run(ask, client):
    made = client.post("/v1/workflows", {"definition": {"steps": [{"name": "w", "await": {"signal": "go"}}]}, "deadline_seconds": 600}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{made}/status").json["awaiting"])
    assert "Ends: not before the signal 'go', or at its deadline, in " in ask("show", made).out
    ask("cancel", made)


def test_a_step_that_was_rejected_in_a_pause_says_that_it_fails(ask, client):
    definition = {"steps": [{"name": "w", "await": {"signal": "go", "approvals": 2}}]}
    made = client.post("/v1/workflows", {"definition": definition}).json["id"]
    until(lambda: client.get(f"/v1/workflows/{made}/status").json["awaiting"])
    ask("pause", made)
    ask("signal", made, "go", "--reject")
    shown = ask("show", made).out
    assert "fails after the resume" in shown and "goes on after" not in shown, shown
    ask("resume", made)
    until(lambda: client.get(f"/v1/workflows/{made}").json["status"] == "FAILED")


# ---- one step ----


def test_a_step_is_shown_as_defined_and_as_resolved(ask, write, client, receiver):
    receiver.answer("/a", Reply(body=b'{"n": 7}'))
    path = write("x.json", json.dumps({"steps": [
        {"name": "a", "target_config": {"url": receiver.url("/a"), "headers": {"Authorization": "Bearer hush"}}},
        {"name": "b", "depends_on": ["a"], "target_config": {"url": receiver.url("/b"), "body": {"n": {"$ref": "/steps/a/output/n"}}}},
        {"name": "sign", "depends_on": ["b"], "await": {"signal": "go"}},
        {"name": "c", "depends_on": ["b", "sign"], "target_config": {"url": receiver.url("/c"), "body": {"$ref": "/input"}}}]}))
    made = ask("run", path, "-q").out.strip()
    until(lambda: "waits for signal 'go'" in ask("show", made).out)
    shown = ask("show", made, "b")
    line = lambda answer, label: [x for x in answer.lines if x.startswith(label + " ")]
    assert '{"$ref":"/steps/a/output/n"}' in line(shown, "Defined as")[0] and '"n":7' in line(shown, "Config")[0], shown
    waiting = ask("show", made, "c")
    assert '{"$ref":"/input"}' in line(waiting, "Defined as")[0] and not line(waiting, "Config"), waiting
    found = client.get(f"/v1/workflows/{made}/steps/b").json
    assert found["definition"]["target_config"]["body"] == {"n": {"$ref": "/steps/a/output/n"}}
    assert found["target_config"]["body"] == {"n": 7}
    assert "hush" not in json.dumps(client.get(f"/v1/workflows/{made}/steps/a").json)
    done(ask("cancel", made))


def test_a_map_is_shown_with_its_items(ask, client):
    made = run(client, definition={"steps": [{"name": "m", "target_type": "NOOP", "map": {"over": [1, 2, 3]}}]})["id"]
    ended(client, made)
    found = client.get(f"/v1/workflows/{made}/steps/m").json
    assert found["target_type"] == steps(client, made)[("m", None, "STEP")]["target_type"] == "MAP"
    assert found["items"] == {"total": 3, "by_status": {"COMPLETED": 3}}
    done(ask("show", made, "m"), "Items: 3 COMPLETED of 3. Its output is the list of their outputs:\n", f"'belfry workflow show {made} m/0' prints the first item")
    item = client.get(f"/v1/workflows/{made}/steps/m?item=1").json
    assert item["target_type"] == "NOOP" and "items" not in item


# ---- definitions that others need ----


def test_a_sub_workflow_that_is_not_stored_yet_is_a_warning(ask, write, client):
    outer = json.dumps({"steps": [{"name": "a", "target_type": "NOOP"}, {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "chain"}}]})
    applied = done(ask("apply", write("outer.json", outer)), "outer version 1\n")
    assert applied.err == "warning: steps[1]: no workflow is named 'chain' yet\n"
    done(ask("apply", write("chain.yaml", CHAIN)))
    assert done(ask("apply", write("outer.json", outer))).err == ""
    later = put(client, "later", {"steps": [{"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "chain", "version": 7}}]})
    assert later["warnings"] == [{"field": "steps[0]", "message": "the workflow 'chain' has no version 7 yet"}]


def test_a_definition_that_others_run_is_not_removed_by_mistake(ask, write, client):
    put(client, "signed", {"steps": [{"name": "sign", "await": {"signal": "go"}}]})
    put(client, "outer", {"steps": [{"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "signed"}}]})
    made = run(client, workflow="signed")["id"]
    refused = ask("rm", "signed")
    assert refused.code == 1 and "signed is run by steps of 1 definition, whose next run fails without it; change them first, or remove it with --force:" in refused.err, refused
    assert refused.err.splitlines()[1].split() == ["outer", "sub"]
    removed = done(ask("rm", "signed", "--force"))
    assert removed.out == "signed removed\n1 open run goes on with the version that it started with\n", removed
    done(ask("signal", made, "go"))
    assert ended(client, made)["status"] == "COMPLETED"


# ---- names in place of ids ----


def test_a_key_that_may_only_signal_is_told_to_give_the_whole_id(ask, client):
    made = run(client, name="payout", definition={"steps": [{"name": "sign", "await": {"signal": "go"}}]})["id"]
    few = client.post("/v1/api-keys", {"name": "ann", "scopes": ["workflows:signal"]}).json["key"]
    for word in ("payout", made[:13]):
        refused = ask("signal", word, "go", "--key", few)
        assert refused.code == 1 and "this key may not look runs up: give the whole id, such as 019c3f2e-" in refused.err, refused
    done(ask("signal", made, "go", "--key", few), "go received, 1 of 1, for step sign\n")
    assert ended(client, made)["status"] == "COMPLETED"
    late = ask("signal", made, "go")
    assert late.code == 1 and "COMPLETED since" in late.err, late


def test_compensations_of_items_are_numbered_and_keys_and_steps_are_named(ask, client, receiver):
    receiver.answer("/b", Reply(status=400))
    made = run(client, definition={"steps": [
        {"name": "m", "map": {"over": [1, 2]}, "target_type": "NOOP", "compensate": {"target_type": "NOOP"}},
        {"name": "b", "depends_on": ["m"], **http(receiver, "/b")}, {"name": "c", "depends_on": ["b"], "target_type": "NOOP"},
        {"name": "d", "depends_on": ["b", "c"], "target_type": "NOOP"}]})["id"]
    assert ended(client, made)["compensation"] == "COMPLETE"
    undone = [line.split()[1] for line in ask("show", made).lines if line.startswith("undo")]
    assert undone == ["m[0]", "m[1]"], undone
    for read in (f"/v1/workflows/{made}/steps/d", f"/v1/tasks/{steps(client, made)[('d', None, 'STEP')]['id']}"):
        assert client.get(read).json["last_error"].startswith("skipped: it depends on 'b' with MUST_SUCCEED, which is FAILED"), read
    key = client.post("/v1/api-keys", {"name": "ann from the night shift", "scopes": ["workflows:write", "workflows:read"]}).json["key"]
    for more in ([], ["--in", "1h"]):
        stopped = client.post("/v1/workflows", {"definition": {"steps": [{"name": "sign", "await": {"signal": "go"}}]}, **({"delay": "1h"} if more else {})}).json["id"]
        if not more:
            until(lambda: status(client, stopped)["awaiting"])
        done(ask("cancel", stopped, "--key", key))
        assert ended(client, stopped)["last_error"] == "cancelled by ann from the night shift"


# ---- errors ----


def test_a_wrong_value_is_answered_with_those_that_there_are(ask, plain, write, client):
    for words, said in [
        (["add", "--cron", "@daily", "--overlap", "queue-on", "--noop"], "must be one of skip, allow, queue-one, queue-all, cancel-previous, not 'queue-on'; did you mean 'queue-one'?"),
        (["key", "create", "x", "--scopes", "workflows:raed"], "did you mean 'workflows:read'? The scopes are "),
        (["workflow", "list", "--status", "COMPLETE"], "must be one of SCHEDULED, BLOCKED, PAUSED, RUNNING, COMPLETED, FAILED, CANCELLED, SKIPPED, EXPIRED, ACTIVE, not 'COMPLETE'; did you mean 'COMPLETED'?"),
    ]:
        assert said in plain(*words).err, (words, plain(*words))
    linted = ask("lint", write("x.json", json.dumps({"steps": [{"name": "a", "target_type": "NOOP", "join": "SOM"}]})))
    assert "must be one of ALL, ANY, SOME, not 'SOM'; did you mean 'SOME'?" in linted.err, linted
    wrong = client.get("/v1/workflows/payout/steps")
    assert wrong.status == 404 and wrong.json["detail"] == "'payout' is no id: an id looks like 019c3f2e-7a40-7000-8000-000000000001"
    assert "there is no route" in client.get("/v1/nothing").json["detail"]


def test_the_command_names_commands_as_remedies(ask, plain, client):
    made = run(client, definition={"steps": [{"name": "a", "target_type": "NOOP", "delay": "1h"}, {"name": "b", "depends_on": ["a"], "target_type": "NOOP"}]})["id"]
    until(lambda: status(client, made)["by_status"].get("SCHEDULED"))
    step = steps(client, made)[("a", None, "STEP")]["id"]
    assert f"use 'belfry workflow cancel {made}'" in plain("cancel", step).err
    assert f"use 'belfry workflow step run-now {made} a'" in plain("run", step).err
    assert "change the definition, and run that" in plain("edit", step, "--priority", "3").err
    assert f"it is kept and removed with its run {made}" in plain("rm", step).err
    assert f"use POST /v1/workflows/{made}/steps/a/run-now" in client.post(f"/v1/tasks/{step}/run-now").json["detail"]
    parent = plain("add", "-q", "--noop", "--in", "1h").out.strip()
    child = plain("add", "-q", "--noop", "--after", parent).out.strip()
    assert "use --force to not wait" in plain("run", child).err
    done(plain("cancel", parent))
    assert "create a new one with 'belfry add'" in plain("edit", parent, "--priority", "3").err
    done(ask("cancel", made))


def test_each_request_that_becomes_a_command_is_in_a_sentence_of_the_server():
    """Otherwise a changed sentence would speak of requests again, and nobody would notice."""
    source = pathlib.Path(__file__).parents[3] / "src"
    rows = re.findall(r'^    \{ "((?:[^"\\]|\\.)*)", "', (source / "cli" / "remedy.c").read_text(), re.M)
    sentences = "".join(path.read_text() for folder in ("api", "core") for path in (source / folder).rglob("*.c"))
    joined = re.sub(r'"\s*\n\s*"', "", sentences)
    assert len(rows) >= 7 and [row for row in [*rows, "use POST /v1/workflows/"] if row not in joined] == []


def test_runs_are_listed_with_the_newest_first(ask, write):
    path = write("chain.yaml", CHAIN)
    made = [ask("run", path, "-q", "--in", "1h").out.strip() for _ in range(3)]
    assert [line.split()[0] for line in ask("list").lines[1:4]] == made[::-1]
    assert "the newest first" in ask("--help").out
