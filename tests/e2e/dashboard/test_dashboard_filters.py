"""Filters by time: as one types them, as presets, and in an address that somebody mistyped."""

import re

import pytest


@pytest.mark.dashboard_all
def test_executions_are_filtered_by_times_as_one_types_them(alive, tabs):
    tab = tabs(alive).open("executions")
    tab.page.locator("tr[data-row]").first.wait_for()
    tab.page.get_by_role("button", name="Filter").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Ended after").fill("yesterday")
    dialog.get_by_role("button", name="Filter").click()
    dialog.get_by_role("alert").get_by_text("yesterday is no time").wait_for()
    dialog.get_by_label("Ended after").fill("1h")
    with tab.page.expect_request(re.compile(r"/v1/executions\?.*from=20\d\d-")):
        dialog.get_by_role("button", name="Filter").click()
    tab.page.locator(".chip").get_by_text("1h ago").wait_for()
    assert tab.page.url.endswith("#/executions?from=1h")  # it stays the last hour
    tab.page.get_by_role("link", name="Last week").click()
    tab.page.locator(".chip").get_by_text("7d ago").wait_for()
    tab.page.get_by_role("button", name="CLI").click()
    assert tab.page.evaluate("navigator.clipboard.readText()").startswith("belfry history --from 20")


@pytest.mark.dashboard_all
@pytest.mark.parametrize("route", ["executions?from=tomorrow%27", "tasks?created_after=13h%20or%20so"])
def test_a_mistyped_time_in_an_address_is_told_and_can_be_removed(alive, tabs, route):
    tab = tabs(alive).open(route)
    tab.page.get_by_role("alert").get_by_text("is no time").wait_for()
    tab.page.locator(".chip button").click()
    tab.page.locator("tr[data-row]").first.wait_for()


@pytest.mark.dashboard_all
def test_tasks_are_filtered_by_when_they_were_created(alive, tabs):
    tab = tabs(alive).open("tasks?created_after=7d&name=nightly*")
    tab.page.get_by_role("link", name="nightly-ledger").wait_for()
    tab.open("tasks?created_before=1d")
    tab.page.get_by_text("No task matches").wait_for()


@pytest.mark.dashboard_all
def test_attempts_of_workflows_are_named_by_run_and_step(alive, tabs):
    run = alive.api("POST", "/v1/workflows", {"name": "named-run", "definition": {"steps": [{"name": "only-step", "target_type": "NOOP", "queue": "named"}]}})
    alive.api("GET", f"/v1/workflows/{run['id']}?wait_seconds=10")
    tab = tabs(alive).open("executions?queue=named&from=1d")
    found = alive.api("GET", "/v1/executions?steps=true&limit=200")["executions"]
    step = next(e for e in found if e.get("step"))
    assert step["run_name"] and step["run"] and "item" in step
    assert not any("step" in e for e in alive.api("GET", "/v1/executions?limit=200")["executions"])
    row = tab.page.locator("tr[data-row]").filter(has_text="only-step").filter(has_text="named-run")
    row.get_by_role("link", name="only-step").click()
    tab.page.get_by_role("heading", name="only-step").wait_for()
