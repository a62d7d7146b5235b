"""What is expected of tasks, who is told by and by, and figures that open exactly what they count."""

import datetime
import json
import re

import pytest

from server import until


def test_checks_are_on_alerts_and_on_the_page_of_their_task(alive, tabs):
    ledger = alive.made["ledger"]["id"]
    until(lambda: [c for c in alive.api("GET", f"/v1/checks?task={ledger}")["checks"] if c["next_deadline"]], why="the check has no deadline")
    tab = tabs(alive).open("alerts")
    row = tab.page.get_by_role("table", name="Checks").get_by_role("row").filter(has_text="nightly-ledger")
    row.get_by_text("In time").first.wait_for()
    row.get_by_text("a success by 06:00 on MON-FRI").wait_for()
    row.get_by_role("link", name="nightly-ledger").click()
    section = tab.page.locator("section").filter(has=tab.page.get_by_role("heading", name="Expected"))
    section.get_by_text("a success by 06:00 on MON-FRI").wait_for()
    assert "ops" in section.inner_text() and "Next deadline" in section.inner_text()


@pytest.mark.dashboard_all
def test_expectations_and_who_is_told_are_set_in_the_form(alive, tabs):
    tab = tabs(alive).open("tasks/new")
    tab.allowed.append("status of 400")
    tab.page.get_by_role("textbox", name="Name", exact=True).fill("expected-daily")
    tab.page.get_by_label("URL").fill(alive.sink_url + "/fine")
    tab.page.get_by_label("Expected", exact=True).select_option("by")
    tab.page.get_by_label("By", exact=True).fill("25:00")
    tab.page.get_by_role("checkbox", name="ops", exact=True).check()
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_role("alert").get_by_text("must be a time of day").wait_for()
    tab.page.get_by_label("By", exact=True).fill("09:00")
    tab.page.get_by_label("On", exact=True).fill("MON-FRI")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_role("heading", name="expected-daily").wait_for()
    (made,) = alive.api("GET", "/v1/tasks?name=expected-daily")["tasks"]
    assert (made["expect"], made["notify"]) == ({"success_by": "09:00", "days": "MON-FRI"}, ["ops"])
    tab.open(f"tasks/{made['id']}/edit")
    assert tab.page.get_by_role("button", name="Save").is_disabled()  # nothing differs
    tab.page.get_by_label("Expected", exact=True).select_option("within")
    tab.page.get_by_label("Within, seconds").fill("7200")
    tab.page.get_by_text("Within, seconds: is shorter than the time from one run to the next").wait_for()
    tab.page.get_by_role("checkbox", name="ops", exact=True).uncheck()
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_text("a success every 2 hours").wait_for()
    now = alive.api("GET", f"/v1/tasks/{made['id']}")
    assert now["expect"] == {"within_seconds": 7200} and "notify" not in now
    alive.api("DELETE", f"/v1/tasks/{made['id']}")


@pytest.mark.dashboard_all
def test_steps_of_a_setting_are_edited(alive, tabs):
    api = lambda: next(s for s in alive.api("GET", "/v1/notification-settings?limit=100")["notification_settings"] if s["name"] == "stairs")
    alive.api("POST", "/v1/notification-settings", {"name": "stairs", "on_failure": True, "delivery_type": "HTTP_WEBHOOK", "filter": {"queue": "none"},
              "delivery_config": {"url": alive.sink_url + "/told"}})
    tab = tabs(alive).open("alerts")
    edit = tab.page.get_by_role("button", name="Edit stairs")
    dialog = tab.page.get_by_role("dialog")
    edit.click()
    dialog.get_by_label("If nobody acknowledges it for").fill("15m")
    dialog.get_by_label("Step 1, by").select_option("PUSH")
    dialog.get_by_label("Step 1, ntfy server").fill(alive.sink_url)
    dialog.get_by_label("Step 1, Topic").fill("boss")
    dialog.get_by_label("Step 1, Token").fill("hush")
    dialog.get_by_label("Step 2, if nobody does for").fill("1h")
    dialog.get_by_label("Step 2, URL").fill(alive.sink_url + "/board")
    dialog.get_by_role("button", name="Save").click()
    dialog.wait_for(state="detached")
    steps = api()["steps"]
    assert [(s["after"], s["delivery_type"]) for s in steps] == [("15m", "PUSH"), ("1h", "HTTP_WEBHOOK")] and steps[0]["delivery_config"]["token"] == "***"
    until(lambda: not tab.page.get_by_role("dialog").count(), why="the form is open")
    tab.open("alerts")
    edit.click()
    assert dialog.get_by_label("Step 1, Token").input_value() == "***"
    dialog.get_by_label("Step 2, if nobody does for").fill("")  # there is no second step any more
    dialog.get_by_label("Step 1, Topic").fill("chief")
    dialog.get_by_role("button", name="Save").click()
    dialog.wait_for(state="detached")
    (step,) = api()["steps"]
    assert step["delivery_config"]["topic"] == "chief" and step["delivery_config"]["token"] == "***"
    alive.api("DELETE", f"/v1/notification-settings/{api()['id']}")


def test_a_top_cause_opens_the_attempts_that_it_counts(alive, tabs):
    failed = lambda: [e["error_message"] for e in alive.api("GET", "/v1/executions?status=FAILED&queue=billing&limit=500")["executions"] if "422" in e["error_message"]]
    until(lambda: len(failed()) >= 23, why=failed)
    said = failed()[0]
    tab = tabs(alive).open("overview")
    row = tab.page.locator("section").filter(has=tab.page.get_by_role("heading", name="Top causes")).get_by_role("row").filter(has_text=said)
    row = row.filter(has_text="billing")
    counted = row.locator("td.num a")
    n = int(counted.inner_text().replace(",", ""))
    counted.click()
    tab.page.get_by_role("heading", name="Executions").wait_for()
    tab.page.locator(".chip").get_by_text(said).wait_for()
    until(lambda: tab.page.locator("section[aria-label=Attempts] tr[data-row]").count() == min(n, 100), why=lambda: (n, tab.text()))
    rows = tab.page.locator("section[aria-label=Attempts] tr[data-row]")
    assert all("billing" in text for text in rows.all_inner_texts()[:5])


@pytest.mark.dashboard_all
def test_the_calendar_says_how_many_minutes_are_as_full(alive, tabs):
    start = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=30)).replace(second=0, microsecond=0)
    minutes = [{"at": (start + datetime.timedelta(minutes=m)).isoformat().replace("+00:00", "Z"), "fires": 40 if m in (3, 7, 9) else 1} for m in range(20)]
    tab = tabs(alive)
    tab.page.route("**/v1/upcoming?*group_by=minute*", lambda route: route.fulfill(content_type="application/json", body=json.dumps(
        {"minutes": minutes, "complete": True})))
    tab.open("calendar?zone=UTC")
    text = tab.page.locator("header p").inner_text()
    assert re.search(r"the fullest is .* with 40, and 2 other minutes are as full\.", text), text
