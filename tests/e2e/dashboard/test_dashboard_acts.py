"""What one does in the dashboard: by pointer and by keyboard, alone and in bulk, and the same as commands."""

import json
import os
import subprocess

import pytest

from conftest import BUILD
from living import HOSTILE
from server import until


def new_task(alive, name, **fields):
    return alive.api("POST", "/v1/tasks", {"name": name, "target_type": "NOOP", "target_config": {}, "delay": "1h", **fields})


def status(alive, task):
    return alive.api("GET", f"/v1/tasks/{task['id']}")["status"]


def test_a_task_is_paused_and_the_toast_takes_it_back(alive, tabs):
    task = new_task(alive, "to-pause")
    tab = tabs(alive).open(f"tasks/{task['id']}")
    tab.page.locator(".head").get_by_role("button", name="Pause…").focus()
    tab.page.keyboard.press("Enter")
    dialog = tab.page.get_by_role("dialog", name="Pause to-pause?")
    dialog.get_by_label("Until").fill("soon")
    dialog.get_by_label("Reason").fill(HOSTILE)
    tab.page.keyboard.press("Enter")
    dialog.get_by_role("alert").get_by_text("soon is neither a time nor a duration").wait_for()
    assert tab.page.evaluate("document.activeElement.name") == "until"
    dialog.get_by_label("Until").fill("2h")
    tab.page.keyboard.press("Enter")
    tab.page.locator(".head").get_by_text("Paused").wait_for()
    assert HOSTILE in tab.page.locator(".explain").text_content() and "until" in tab.page.locator(".explain").text_content()
    paused = alive.api("GET", f"/v1/tasks/{task['id']}")["paused"]
    assert paused["reason"] == HOSTILE and paused["until"] and status(alive, task) == "PAUSED"
    tab.page.locator(".toast").get_by_role("button", name="Resume").click()
    tab.page.locator(".head").get_by_text("Scheduled").wait_for()
    assert status(alive, task) == "SCHEDULED"


def test_a_run_is_paused_with_a_reason_which_the_page_and_the_audit_show(alive, tabs):
    run = alive.api("POST", "/v1/workflows", {"name": "to-hold", "definition": {"steps": [{"name": "ok", "await": {"signal": "ok", "approvals": 1}}]}})
    tab = tabs(alive).open(f"workflows/{run['id']}")
    tab.page.get_by_text("It waits for a person").wait_for()
    tab.page.locator(".head").get_by_role("button", name="Pause…").click()
    dialog = tab.page.get_by_role("dialog", name="Pause to-hold?")
    dialog.get_by_label("Reason").fill(HOSTILE)
    dialog.get_by_label("Until").fill("2h")
    dialog.get_by_role("button", name="Pause").click()
    tab.page.locator(".head").get_by_text("Paused").wait_for()
    assert HOSTILE in tab.page.locator("header p").first.text_content() and ", until " in tab.page.locator("header p").first.text_content()
    assert alive.api("GET", f"/v1/workflows/{run['id']}")["pause"]["reason"] == HOSTILE
    tab.open(f"admin?object={run['id']}").page.get_by_text("paused the run").wait_for()
    assert f": “{HOSTILE}”, until " in tab.page.get_by_role("row").filter(has_text="paused the run").text_content()
    tab.open(f"workflows/{run['id']}").page.locator(".head").get_by_role("button", name="Resume").click()
    until(lambda: not alive.api("GET", f"/v1/workflows/{run['id']}")["paused"], why="it was not resumed")


@pytest.mark.dashboard_all
def test_a_cancel_is_asked_about_and_focus_returns(alive, tabs):
    task = new_task(alive, "to-cancel")
    tab = tabs(alive).open(f"tasks/{task['id']}")
    button = tab.page.locator(".actions").get_by_role("button", name="Cancel…", exact=True)
    button.click()
    tab.page.get_by_role("dialog").wait_for()
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("dialog").wait_for(state="detached")
    assert button.evaluate("e => e === document.activeElement")
    button.click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    tab.page.locator(".head").get_by_text("Cancelled").wait_for()
    assert status(alive, task) == "CANCELLED"


def test_a_page_of_tasks_is_paused_with_the_keyboard_alone(alive, tabs):
    tasks = [new_task(alive, f"keyboard-{n}") for n in range(3)]
    tab = tabs(alive).open("overview")
    keys = tab.page.keyboard
    for key in "gt":
        keys.press(key)
    tab.page.get_by_role("heading", name="Tasks").wait_for()
    keys.press("/")
    keys.type("keyboard-*")
    keys.press("Enter")
    tab.page.get_by_text("3 match").wait_for()
    keys.press("Escape")
    for key in "jxjx":  # two of three rows
        keys.press(key)
        tab.page.wait_for_function("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
    tab.page.locator(".bulk").get_by_text("2 selected").wait_for()
    keys.press(".")
    keys.press("Enter")
    tab.page.get_by_role("dialog").wait_for()
    tab.page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).focus()
    keys.press("Enter")
    tab.page.locator(".toast").get_by_text("2 done").wait_for()
    assert sorted(status(alive, task) for task in tasks) == ["PAUSED", "PAUSED", "SCHEDULED"]
    keys.press("?")
    tab.page.get_by_role("dialog").get_by_text("next, previous row").wait_for()


@pytest.mark.dashboard_all
def test_all_that_match_are_cancelled_by_a_job(alive, tabs):
    alive.api("POST", "/v1/tasks/batch", [{"name": f"bulk-{n}", "target_type": "NOOP", "target_config": {}, "delay": "1h"} for n in range(120)])
    tab = tabs(alive).open("tasks?name=bulk-*")
    tab.page.get_by_label("Select all on this page").check()
    tab.page.get_by_role("button", name="Select all 120 matching").click()
    tab.page.locator(".bulk").get_by_role("button", name="Cancel…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel tasks").click()
    dialog.get_by_role("alert").get_by_text("type 120").wait_for()  # above 100 the count is typed
    dialog.get_by_label("Type 120 to go on").fill("120")
    dialog.get_by_role("button", name="Cancel tasks").click()
    until(lambda: not alive.api("GET", "/v1/tasks?name=bulk-*&status=SCHEDULED&limit=1")["tasks"], why="some were not cancelled")


@pytest.mark.dashboard_all
def test_a_redrive_is_watched_and_stopped(alive, tabs):
    for n in range(14):
        alive.api("POST", "/v1/tasks", {"name": f"again-{n}", "target_type": "HTTP_CALLBACK", "target_config": {"url": alive.sink_url + "/status/418/again"}, "retry": {"max_attempts": 1}})
    until(lambda: alive.api("GET", "/v1/tasks?name=again-*&status=FAILED&page=1&limit=1")["pagination"]["total"] == 14, why="they did not fail")
    tab = tabs(alive).open("dlq")
    row = tab.page.locator("tr[data-row]").filter(has_text="HTTP 418")
    row.get_by_role("button", name="Re-drive…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("At most, tasks a second").fill("1")
    dialog.get_by_label("Stop above, per cent failed again").fill("100")
    dialog.get_by_role("button", name="Begin with one").click()
    tab.page.get_by_role("group", name="Re-drive").get_by_text("First one").wait_for()
    tab.page.get_by_role("group", name="Re-drive").get_by_role("button", name="Stop", exact=True).click()
    tab.page.get_by_text("Re-drive was stopped").wait_for()


@pytest.mark.dashboard_all
def test_a_step_is_approved(alive, tabs):
    run = alive.api("POST", "/v1/workflows", {"name": "to-approve", "definition": {"steps": [{"name": "ok", "await": {"signal": "ok", "approvals": 1}}]}})
    tab = tabs(alive).open(f"workflows/{run['id']}")
    tab.page.get_by_text("It waits for a person").wait_for()
    tab.page.get_by_role("button", name="Approve").first.click()
    tab.page.get_by_text("It is completed.").wait_for()


@pytest.mark.dashboard_all
def test_a_task_is_created_with_a_preview(alive, tabs):
    tab = tabs(alive).open("tasks/new")
    tab.allowed.append("status of 400")
    tab.page.get_by_label("Expression").fill("61 * * * *")
    tab.page.locator("section[aria-labelledby=preview]").get_by_text("Expression:").first.wait_for()
    tab.page.get_by_label("Expression").fill("30 2 29 2 *")
    tab.page.get_by_text("Tue 29 Feb").first.wait_for()  # 2028
    tab.page.get_by_role("textbox", name="Name").fill("made-by-hand")
    tab.page.get_by_label("URL").fill(alive.sink_url + "/hand")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_role("heading", name="made-by-hand").wait_for()


@pytest.mark.parametrize("how", ["curl", "CLI"])
def test_what_is_copied_does_the_same(alive, tabs, how):
    task = new_task(alive, f"copied-{how}")
    tab = tabs(alive).open(f"tasks/{task['id']}")
    tab.page.get_by_role("button", name=f"Pause as {how}").click()
    command = tab.page.locator(".actions pre.command").inner_text()
    assert tab.page.evaluate("navigator.clipboard.readText()") == command
    environment = {**os.environ, "BELFRY_KEY": alive.server.key, "BELFRY_SERVER": alive.server.url, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command.replace(alive.url, alive.server.url)], env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    if how == "curl":
        assert json.loads(done.stdout)["status"] == "PAUSED"
    assert status(alive, task) == "PAUSED"


@pytest.mark.dashboard_all
def test_rows_do_not_move_under_the_pointer(alive, tabs):
    new_task(alive, "still-0")
    tab = tabs(alive).open("tasks?name=still-*")
    tab.page.locator("tr[data-row]").first.hover()
    new_task(alive, "still-1")
    tab.page.get_by_text("1 new, show them").wait_for()
    assert tab.page.locator("tr[data-row]").count() == 1
    tab.page.get_by_text("1 new, show them").click()
    tab.page.wait_for_function("() => document.querySelectorAll('tr[data-row]').length === 2")


@pytest.mark.dashboard_all
def test_an_incident_is_acknowledged(alive, tabs):
    tab = tabs(alive).open("alerts")
    until(lambda: alive.api("GET", "/v1/incidents?state=OPEN")["incidents"], why="the failures opened no incident")
    tab.page.get_by_role("button", name="Acknowledge").first.click()
    tab.page.locator(".toast").get_by_text("Acknowledged").wait_for()
    tab.page.get_by_role("button", name="Send a test").click()
    tab.page.locator(".toast").get_by_text("the test message was sent").wait_for()
