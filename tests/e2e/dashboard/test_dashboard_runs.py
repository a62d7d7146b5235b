"""Runs of workflows: approvals of several people, what a deadline does to them, and from where a run can begin again."""

import pytest

from server import until

TWO = {"steps": [{"name": "sign", "await": {"signal": "sign", "approvals": 2, "timeout": "8h"}}]}


@pytest.mark.dashboard_all
def test_a_second_approval_with_the_same_key_says_that_it_does_not_count(alive, tabs):
    run = alive.api("POST", "/v1/workflows", {"name": "two-people", "definition": TWO, "deadline_seconds": 7200})
    tab = tabs(alive).open(f"workflows/{run['id']}")
    head = tab.page.locator("#main header")  # the button is above the graph
    assert "Without it the run fails at its deadline" in head.inner_text() and "2 people must approve" in head.inner_text()
    head.get_by_role("button", name="Approve").click()
    tab.page.locator(".toast").get_by_text("Approved: 1 of 2").wait_for()
    head.get_by_text("Approved by").wait_for()
    head.get_by_text("One person more must approve, with another key than yours").wait_for()
    head.get_by_role("button", name="Approve").click()
    tab.page.locator(".toast").get_by_text("counted already: 1 of 2. Another person’s key is needed").wait_for()
    other = alive.api("POST", "/v1/api-keys", {"name": "bob", "scopes": ["workflows:signal"]})
    said = alive.api("POST", f"/v1/workflows/{run['id']}/signals/sign", {}, key=other["key"])
    assert (said["received"], said["repeated"]) == (2, False)
    head.get_by_text("It is completed.").wait_for()


@pytest.mark.dashboard_all
def test_a_run_is_rerun_only_from_steps_whose_parents_allow_it(alive, tabs):
    run = alive.made["failing"]["id"]
    until(lambda: alive.api("GET", f"/v1/workflows/{run}")["status"] == "FAILED", why="the import did not fail")
    tab = tabs(alive).open(f"workflows/{run}")
    tab.page.get_by_role("button", name="Rerun from…").click()
    choice = tab.page.get_by_role("dialog").get_by_label("From")
    assert choice.locator("option").all_inner_texts() == ["download", "parse"]
    assert choice.input_value() == "parse"
