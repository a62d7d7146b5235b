"""What the command line says of overlap, keys and expiry, against a server that follows a script."""

import re

import pytest

from test_cli_client import ID, ask, instant, page, shown, stub, task  # pylint: disable=unused-import


def test_show_tells_what_a_task_shares_and_waits_for(ask, stub):
    at = instant(hours=5)
    stub.on("GET", f"/v1/tasks/{ID}", task(
        status="BLOCKED", calendar="de", calendar_policy="NEXT_DAY", overlap_policy="QUEUE_ONE", concurrency_key="k 1",
        concurrency_limit=3, dedupe_key="d", dedupe_window_seconds=3600, dedupe_action="RETURN", expires_after_seconds=90,
        expires_at=at, waiting_for={"kind": "concurrency_key", "key": "k 1"}))
    told = dict(re.split(r"  +", line, maxsplit=1) for line in ask("show", ID).out.splitlines())
    assert told["Waits for"] == "a slot of key 'k 1'" and told["Calendar"] == "de" and told["on other days"] == "NEXT_DAY"
    assert told["Overlap"] == "QUEUE_ONE" and told["Concurrency key"] == "k 1" and told["at most at once"] == "3"
    assert told["Dedupe key"] == "d" and told["for"] == "1h" and told["then"] == "RETURN"
    assert told["Expires after"] == "1m30s" and told["Expires"] == f"in 5h, {shown(at)}"


def test_history_notes_what_an_occurrence_waits_for(ask, stub):
    stub.on("GET", f"/v1/tasks/{ID}/occurrences", page([
        task(status="BLOCKED", waiting_for={"kind": "overlap", "key": ID}),
        task(status="SKIPPED", last_error="skipped: the run of 2026-02-10T08:00:00.000Z is not over")]))
    out = ask("history", "--occurrences", ID).out
    assert "its previous run" in out and "skipped: the run of 2026-02-10T08:00:00.000Z is not over" in out


def test_add_says_that_a_task_was_there(ask, stub):
    stub.on("POST", "/v1/tasks", (200, task(deduplicated=True)))
    for action, done in (("return", "it was not changed"), ("reschedule", "it was moved to the new time"),
                         ("replace", "its payload was replaced, and it was moved to the new time")):
        assert ask("add", "--dedupe-key", "k", "--noop", "--dedupe-action", action).lines[:2] == [
            ID, f"The task existed already, with this dedupe key; {done}"]
    assert ask("add", "--dedupe-key", "k", "--noop").lines[1].endswith("it was not changed")
    assert ask("add", "--dedupe-key", "k", "--noop", "--set", "dedupe_action=REPLACE").lines[1].endswith("this dedupe key")
    assert ask("add", "-q", "--dedupe-key", "k", "--noop").out == f"{ID}\n"


@pytest.mark.parametrize("flag, value", [
    ("overlap", "skip"), ("catch-up", "one"), ("max-attempts", "5"), ("timeout", "30s"), ("backoff", "exponential"), ("jitter", "full"),
    ("dst-gap", "shift if"), ("dst-overlap", "first if"), ("calendar-policy", "skip"), ("dedupe-action", "return"), ("delivery", "at-least-once"),
])
def test_help_says_the_default(belfry, flag, value):
    text = " ".join(belfry("add", "--help").out.split())
    [row] = re.findall(rf" --{flag} [A-Z]+ (.*?)(?= --[a-z-]+ [A-Z]|$)", text)
    assert f"default: {value}" in row


def test_help_says_how_long_a_retry_and_a_burst_really_take(belfry):
    text = " ".join(belfry("add", "--help").out.split())
    assert "a random time between 0 and this" in text and "twice as long after 429 or 503 without Retry-After" in text
    queue = " ".join(belfry("queue", "--help").out.split())
    assert "on average" in queue and "default: those of one second, at least 1; 1: evenly spaced" in queue
    assert "debounce" in belfry("add", "--help").out


@pytest.mark.parametrize("args, body", [
    (["--calendar", ""], {"calendar": None}),
    (["--concurrency-key", ""], {"concurrency_key": None}),
    (["--expires", "0s"], {"expires_after_seconds": None}),
    (["--overlap", "allow", "--concurrency-limit", "2"], {"overlap_policy": "ALLOW", "concurrency_limit": 2}),
])
def test_edit_takes_fields_back_to_their_defaults(ask, stub, args, body):
    stub.on("PATCH", f"/v1/tasks/{ID}", task(version=2))
    done = ask("edit", ID, *args)
    assert (done.code, done.err, stub.writes[-1].body) == (0, "", body)
