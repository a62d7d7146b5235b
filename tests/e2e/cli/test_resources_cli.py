"""belfry queue, calendar, tenant, key and notify against the real server: what they do, print and return."""

import json

import pytest

from server import Reply, until

pytestmark = [pytest.mark.tenant, pytest.mark.text("words of commands")]


@pytest.fixture
def ask(belfry, server, tmp_path):
    def run(*args, key=None, **more):
        env = {"HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir), "BELFRY_KEY": key or ""}
        return belfry(*args, env=env, **more)
    return run


def done(result, *parts):
    assert result.code == 0, result
    for part in parts:
        assert part in result.out, (part, result)
    return result


def refused(result, code, *parts):
    assert result.code == code and result.out == "", result
    for part in parts:
        assert part in result.err, (part, result)


# ---- queue ----


def test_a_queue_is_set_shown_paused_resumed_and_forgotten(ask, client, receiver):
    assert ask("queue", "list").err == "belfry queue: there are no queues yet\n"
    done(ask("queue", "set", "mail", "--rate", "2.5", "--burst", "10", "--concurrent", "4", "--weight", "7"), "mail", "2.5", "10", "4", "7", "open")
    done(ask("queue", "pause", "mail", "--reason", "disk full", "--for", "2h"), "mail paused until 20")
    listed = done(ask("queue", "list"), "NAME", "STATE", "PAUSED")
    assert listed.lines[1].split()[:2] == ["mail", "paused"] and "by admin until " in listed.out and ": disk full" in listed.out
    task = client.create(queue="mail", **receiver.target("/held"))
    done(ask("queue", "resume", "mail"), "mail resumed\n")
    client.wait_for(task["id"], "COMPLETED")
    shown = json.loads(done(ask("queue", "show", "mail", "--json")).out)
    assert shown["weight"] == 7 and shown["paused"] is None and shown["max_burst"] == 10
    done(ask("queue", "set", "mail", "--rate", "0"), "Concurrent")
    done(ask("queue", "rm", "mail"), "mail has its default settings again\n")
    assert json.loads(ask("queue", "list", "--json").out)["version"] == 0
    refused(ask("queue", "rm", "mail"), 1, "mail: this queue has no rules of its own")
    refused(ask("queue", "show", "nobody"), 1, "nobody: there is no such queue")
    refused(ask("queue", "resume", "nobody"), 1, "nobody: there is no such queue: it has neither rules nor tasks")
    assert [json.loads(line)["name"] for line in ask("queue", "list", "--json").lines] == ["mail"]
    done(ask("queue", "resume", "mail"), "mail resumed\n")


@pytest.mark.shared
def test_words_that_make_no_sense_are_refused(ask):
    refused(ask("queue"), 2, "a verb is missing: use list, show, set, pause, resume or rm")
    refused(ask("queue", "puase", "x"), 2, "has no verb 'puase'; did you mean 'pause'?")
    refused(ask("queue", "show"), 2, "show needs a NAME")
    refused(ask("queue", "list", "x"), 2, "list takes no further arguments, but got 'x'")
    refused(ask("queue", "show", "a b"), 2, "'a b' is not a valid name")
    refused(ask("queue", "set", "x"), 2, "nothing to change: give")
    refused(ask("queue", "set", "x", "--rate", "fast"), 2, "--rate must be a number")
    refused(ask("queue", "set", "x", "--weight", "0"), 2, "--weight")
    refused(ask("queue", "pause", "x", "--for", "1h", "--until", "2099-01-01T00:00:00Z"), 1, "for")
    refused(ask("calendar", "set", "x"), 2, "nothing to change: give")
    refused(ask("calendar", "set", "x", "--exclude", "soon"), 2, "--exclude cannot be 'soon'")
    refused(ask("calendar", "set", "x", "--weekdays", "SAT,CATURDAY"), 2, "--weekdays")
    refused(ask("key", "create", "x"), 2, "--scopes is missing")
    refused(ask("tenant", "set", "x"), 2, "nothing to change: give")


# ---- calendar ----


ICS = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:Day off\nDTSTART;VALUE=DATE:20301224\nEND:VEVENT\nEND:VCALENDAR\n"


def test_a_calendar_is_imported_changed_shown_and_removed(ask, client, tmp_path):
    file = tmp_path / "de-holidays.ics"
    file.write_text(ICS)
    done(ask("calendar", "import", str(file), "--no-weekends"), "de-holidays has 1 excluded dates\n")
    done(ask("calendar", "import", "-", "other", stdin=ICS), "other has 1 excluded dates\n")
    refused(ask("calendar", "import", "-"), 2, "give a name after the file")
    refused(ask("calendar", "import", str(tmp_path / "nothing.ics")), 1, "nothing.ics")
    done(ask("calendar", "set", "de-holidays", "--exclude", "2030-12-25 Christmas Day", "--include", "2030-12-26", "--description", "Our days"),
         "Our days", "2030-12-24", "Day off", "2030-12-25", "Christmas Day", "SAT,SUN")
    done(ask("calendar", "set", "de-holidays", "--include", "2030-12-25", "--forget", "2030-12-24", "--weekdays", "SUN"))
    calendar = client.get("/v1/calendars/de-holidays").json
    assert calendar["excluded"] == [] and calendar["included"] == ["2030-12-25", "2030-12-26"]
    assert calendar["excluded_weekdays"] == ["SUN"] and calendar["description"] == "Our days" and calendar["version"] == 3
    done(ask("calendar", "set", "new", "--exclude", "2030-01-01"), "2030-01-01")
    assert done(ask("calendar", "list")).out.count("\n") == 4
    task = client.create(cron_expression="0 0 * * *", calendar="new", target_type="NOOP", name="user")
    refused(ask("calendar", "rm", "new"), 1, task["id"])
    done(ask("calendar", "rm", "other"), "other removed\n")


# ---- tenant and key ----


@pytest.mark.own_server
def test_a_tenant_gets_keys_and_limits(ask, client, tmp_path):
    done(ask("tenant", "create", "acme", "--max-pending", "2"), "acme", "2")
    refused(ask("tenant", "create", "acme"), 1, "there is a tenant of this name already")
    made = done(ask("key", "create", "deploy", "--scopes", "tasks:read,tasks:write", "--expires-in", "90d", "--tenant", "acme"))
    key = made.out.strip()
    assert key.startswith("bf_") and made.out.count("\n") == 1 and "printed only once" in made.err
    refused(ask("key", "create", "x", "--scopes", "fly"), 1, "tasks:read")
    scopes = ask("key", "create", "x", "--scopes", "fly").err.split("the scopes are ")[1].replace(",", " ").split()
    assert len(scopes) >= 12 and not [scope for scope in scopes if scope not in ask("key", "--help").out]
    for code in (0, 0, 1):
        added = ask("add", "--noop", "--in", "1h", key=key)
        assert added.code == code, added
    assert "max_pending" in added.err
    done(ask("tenant", "set", "acme", "--max-pending", "0", "--creates-per-second", "50"), "50")
    done(ask("add", "--noop", "--in", "1h", key=key))
    done(ask("tenant", "list"), "acme", "default")
    done(ask("tenant", "show", "acme"), "Pending", "3")
    listed = done(ask("key", "list", "--tenant", "acme"), "deploy", "tasks:read,tasks:write", "in 89d")
    assert key not in listed.out
    done(ask("tenant", "disable", "acme"), "acme disabled\n")
    refused(ask("list", key=key), 1, "the tenant of this API key is disabled")
    done(ask("tenant", "enable", "acme"), "acme enabled\n")
    ident = json.loads(done(ask("key", "list", "--tenant", "acme", "--json")).out)["id"]
    refused(ask("key", "revoke", ident), 1, "there is no such key")
    refused(ask("key", "revoke", ident), 1, "keys of another tenant need --tenant NAME")
    done(ask("key", "revoke", ident, "--tenant", "acme"), f"{ident} revoked\n")
    refused(ask("list", key=key), 1, "requires an API key")
    refused(ask("tenant", "list", key=key), 1)


def test_lists_go_on_behind_a_page(ask, client):
    for i in range(30):
        assert client.request("PUT", f"/v1/queues/q{i:02}", {}).status == 200
    names = [json.loads(line)["name"] for line in done(ask("queue", "list", "--json")).lines]
    assert names == [f"q{i:02}" for i in range(30)]


@pytest.mark.parametrize("command", ["queue", "calendar", "tenant", "key"])
def test_help_and_completion_know_the_words(belfry, command):
    help_text = belfry(command, "--help").out
    words = help_text.split(f"Usage: belfry {command} [OPTION…] ")[1].split()[0].split("|")
    assert len(words) >= 3 and all(f"\n  {w} " in help_text for w in words)
    offered = [line.split("\t")[0] for line in belfry("__complete", "--", command, "").lines]
    assert [w for w in offered if not w.startswith("--")] == words
    assert "--json" in offered


def test_a_queue_with_only_tasks_for_workers_is_listed(ask, client):
    client.create(queue="video", target_type="WORKER", payload={})
    listed = done(ask("queue", "list"))
    assert listed.lines[1].split()[:3] == ["video", "open", "1"]
    done(ask("queue", "show", "video"), "video", "open")


# ---- notify ----


def test_a_setting_is_added_tested_and_removed(ask, receiver, client):
    added = done(ask("notify", "add", "ops", "--webhook", receiver.url("/told"), "--on", "failure,dead_letter", "--queue", "mail*", "--after", "2", "--wait", "0s"))
    setting = added.out.strip()
    shown = json.loads(done(ask("notify", "list", "--json")).out)
    assert shown["id"] == setting and shown["on_dead_letter"] is True and shown["on_success"] is False
    assert (shown["filter"], shown["after"], shown["group_wait"]) == ({"queue": "mail*"}, 2, "0s")
    done(ask("notify", "list"), setting, "failure,dead_letter", "HTTP_WEBHOOK", receiver.url("/told"), "enabled")
    done(ask("notify", "mute", "ops", "--until", "2099-01-01T00:00:00Z"), "ops muted until 2099-01-01")
    done(ask("notify", "list"), "muted until 2099-01-01")
    done(ask("notify", "unmute", setting), "not muted")
    done(ask("notify", "test", "ops"), "SENT")
    assert len(receiver.wait("/told")) == 1
    message = json.loads(done(ask("notify", "sent", "--json")).out)
    done(ask("notify", "sent"), message["id"], "test", "ops")
    done(ask("notify", "resend", message["id"]))
    assert len(receiver.wait("/told", 2)) == 2
    until(lambda: ask("notify", "show", message["id"]).out.count(" SENT ") == 2, why=lambda: ask("notify", "show", message["id"]))
    done(ask("notify", "show", message["id"]), "RESENT", "Sent again", "ops")
    refused(ask("notify", "add", "ops", "--webhook", receiver.url("/told")), 1, "name", setting)
    receiver.answer("/told", Reply(400))
    failed = ask("notify", "test", "ops")
    assert failed.code == 1 and "FAILED" in failed.out
    done(ask("notify", "remove", "ops"))
    assert done(ask("notify", "list", "--json")).out == ""
    refused(ask("notify", "remove", "ops"), 1, "ops")


def test_each_channel_has_an_option(ask):
    done(ask("notify", "add", "a", "--slack", "https://hooks.slack.com/services/x"))
    done(ask("notify", "add", "b", "--push", "https://ntfy.example.com/ops", "--token", "tk"))
    rows = [json.loads(line) for line in done(ask("notify", "list", "--json")).lines]
    assert [r["delivery_type"] for r in rows] == ["SLACK_WEBHOOK", "PUSH"]
    assert rows[1]["delivery_config"] == {"url": "https://ntfy.example.com/", "topic": "ops", "token": "***"}
    refused(ask("notify", "add", "c", "--email", "a@example.com"), 1, "smtp.url")
    refused(ask("notify", "add", "d"), 2, "--webhook")
    refused(ask("notify", "add", "d", "--webhook", "https://x/", "--slack", "https://x/"), 2, "give one of")
    refused(ask("notify", "add", "d", "--webhook", "https://x/", "--on", "rain"), 2, "rain")
    refused(ask("notify", "add", "d", "--push", "https://ntfy.example.com"), 2, "topic")


def test_a_setting_is_edited_with_the_options_of_add(ask, receiver):
    done(ask("notify", "add", "ops", "--webhook", "https://a.example/x", "--secret", "whsec_" + 32 * "A", "--queue", "mail*", "--mode", "every", "--window", "1m",
             "--step", "15m push https://ntfy.example.com/boss tk", "--step", "1h webhook https://b.example/y"))
    get = lambda: json.loads(done(ask("notify", "show", "ops", "--json")).out)
    made = get()
    assert (made["mode"], made["group_window"]) == ("EVERY", "1m")
    assert made["steps"] == [{"after": "15m", "delivery_type": "PUSH", "delivery_config": {"url": "https://ntfy.example.com/", "topic": "boss", "token": "***"}},
                             {"after": "1h", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://b.example/y"}}]
    done(ask("notify", "show", "ops"), "It is enabled. It tells failure,recovered to https://a.example/x.", "Step 1, after 15m: PUSH to https://ntfy.example.com/boss")
    done(ask("notify", "edit", "ops", "--on", "missed", "--secret", "", "--queue", "", "--task-type", "bill*", "--mode", "changes", "--after", "3", "--wait", "2s",
             "--repeat-every", "2h", "--max-per-hour", "7", "--step", "", "--user", "ada", "--disable"), "ops changed")
    changed = get()
    assert (changed["on_missed"], changed["on_failure"], changed["on_recovered"], changed["enabled"], changed["user_id"]) == (True, False, False, False, "ada")
    assert (changed["delivery_config"], changed["filter"], changed["steps"]) == ({"url": "https://a.example/x"}, {"task_type": "bill*"}, [])
    assert [changed[k] for k in ("mode", "after", "group_wait", "repeat_every", "max_per_hour", "group_window")] == ["CHANGES", 3, "2s", "2h", 7, "1m"]
    done(ask("notify", "edit", "ops", "--rename", "night", "--enable", "--push", "https://ntfy.example.com/ops", "--priority", "4"))
    assert json.loads(done(ask("notify", "list", "--json")).out)["delivery_config"] == {"url": "https://ntfy.example.com/", "topic": "ops", "priority": 4}
    refused(ask("notify", "edit", "night"), 2, "at least one option")
    refused(ask("notify", "edit", "night", "--enable", "--disable"), 2, "one of --enable and --disable")
    refused(ask("notify", "edit", "night", "--step", "soon"), 2, "--step")
    refused(ask("notify", "edit", "night", "--step", "1s email a@example.com"), 1, "steps[0]")
    refused(ask("notify", "edit", "nobody", "--after", "2"), 1, "nobody")


def test_an_incident_is_shown_muted_and_unmuted(ask, client, receiver):
    done(ask("notify", "add", "ops", "--webhook", receiver.url("/told"), "--wait", "0s"))
    receiver.answer("/fail", Reply(400))
    client.create(name="nightly", retry={"max_attempts": 1}, **receiver.target("/fail"))
    receiver.wait("/told")
    incident = json.loads(done(ask("notify", "incidents", "--json")).out)["id"]
    done(ask("notify", "incidents"), incident, "ops", "nightly", "FAILURE")
    done(ask("notify", "sent"), "ops", "nightly", "incident.opened")
    done(ask("notify", "show", incident), "OPEN", "ops", "nightly", "HTTP 400")
    done(ask("notify", "mute", incident, "--for", "2h"), f"{incident} muted until")
    done(ask("notify", "incidents"), "muted until")
    done(ask("notify", "unmute", incident), "not muted")
    assert json.loads(done(ask("notify", "show", incident, "--json")).out)["muted_until"] is None
    done(ask("notify", "ack", incident), "acknowledged")
    refused(ask("notify", "mute", incident, "--for", "2h", "--until", "2099-01-01T00:00:00Z"), 2, "one of --for and --until")


def test_checks_and_settings_of_a_user_are_listed(ask, client, receiver):
    assert "no task is expected" in ask("notify", "checks").err
    done(ask("notify", "add", "ops", "--webhook", receiver.url("/told"), "--user", "ada"))
    assert json.loads(done(ask("notify", "list", "--user", "ada", "--json")).out)["user_id"] == "ada"
    assert done(ask("notify", "list", "--user", "b c", "--json")).out == ""
    task = done(ask("add", "--cron", "0 2 * * *", "--noop", "--name", "backup", "--expect-success-by", "06:00", "--expect-days", "MON-FRI", "--notify", "ops")).out.split()[0]
    until(lambda: "T06:00:00" in ask("notify", "checks", "--json").out, why=lambda: ask("notify", "checks"))
    done(ask("notify", "checks"), "backup", "OK", "by 06:00 MON-FRI")
    done(ask("show", "backup"), '{"success_by":"06:00","days":"MON-FRI"}', '["ops"]')
    done(ask("edit", "backup", "--expect-within", "2h", "--notify", ""))
    done(ask("notify", "checks"), "within 2h")
    shown = json.loads(done(ask("show", "backup", "--json")).out)
    assert (shown["expect"], shown["notify"]) == ({"within_seconds": 7200}, [])
    done(ask("edit", "backup", "--expect-within", "0s"))
    assert "no task is expected" in ask("notify", "checks").err and task
    refused(ask("add", "--in", "1h", "--noop", "--expect-success-by", "06:00"), 1, "success_by")


def test_incidents_are_acknowledged_and_muted(ask, client, receiver):
    done(ask("notify", "add", "ops", "--webhook", receiver.url("/told"), "--wait", "0s"))
    assert "no incident is open" in ask("notify", "incidents").err
    task = client.create(name="nightly", delay="0s", target_config={"url": "http://127.0.0.1:9/"}, retry={"max_attempts": 1})["id"]
    client.wait_for(task, "FAILED")
    receiver.wait("/told")
    incident = json.loads(done(ask("notify", "incidents", "--json")).out)
    done(ask("notify", "incidents"), incident["id"], "FAILURE", "nightly")
    done(ask("notify", "ack", incident["id"]))
    done(ask("notify", "incidents"), "acknowledged")
    done(ask("notify", "mute", incident["id"], "--for", "2h"), f"{incident['id']} muted until 20")
    done(ask("notify", "incidents"), "muted until 20")
    now = json.loads(done(ask("notify", "incidents", "--all", "--json")).out)
    assert now["acknowledged_at"] and now["muted_until"]
    refused(ask("notify", "ack", "01920000-0000-7000-8000-000000000001"), 1, "no such incident")
