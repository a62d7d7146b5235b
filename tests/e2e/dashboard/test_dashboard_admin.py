"""Keys: what they may do as boxes with words, and what ends with one. The audit in words."""

import pytest


@pytest.mark.dashboard_all
def test_a_key_is_made_from_boxes_and_revoked_with_a_warning(alive, tabs):
    tab = tabs(alive).open("admin")
    tab.page.get_by_role("button", name="New key…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("robot")
    dialog.get_by_label("tasks:write").uncheck()
    dialog.get_by_label("notifications:read").check()
    assert "see incidents, settings and what was sent" in dialog.inner_text()
    dialog.get_by_role("button", name="Create").click()
    tab.page.get_by_role("heading", name="The key robot").wait_for()
    tab.page.get_by_role("button", name="Close").click()
    made = next(k for k in alive.api("GET", "/v1/api-keys?limit=100")["keys"] if k["name"] == "robot")
    assert sorted(made["scopes"]) == ["notifications:read", "tasks:read"]
    tab.page.get_by_role("button", name="Revoke robot").click()
    assert "browsers that logged in with it are logged out" in dialog.inner_text() and "this session" not in dialog.inner_text()
    dialog.get_by_role("button", name="Revoke").click()
    tab.page.get_by_role("button", name="Revoke robot").wait_for(state="detached")
    tab.page.get_by_text("revoked the key").first.wait_for()


@pytest.mark.dashboard_all
def test_ones_own_key_and_the_last_admin_key_are_told_apart(alive, tabs):
    tab = tabs(alive).open("admin")
    tab.allowed.append("status of 409")
    tab.page.get_by_role("button", name="Revoke admin", exact=True).click()
    dialog = tab.page.get_by_role("dialog")
    assert "It is the key of this session" in dialog.inner_text() and "It is the last admin key of default" in dialog.inner_text()
    dialog.get_by_role("button", name="Revoke").click()
    dialog.get_by_role("alert").get_by_text("last admin key").wait_for()


@pytest.mark.dashboard_all
def test_the_audit_is_in_words_with_links(alive, tabs):
    task = alive.api("POST", "/v1/tasks", {"name": "audited", "target_type": "NOOP", "target_config": {}, "delay": "1h"})
    alive.api("POST", f"/v1/tasks/{task['id']}/pause")
    tab = tabs(alive).open("admin")
    row = tab.page.get_by_role("row").filter(has_text="paused the task audited")
    row.get_by_role("link", name="audited").click()
    tab.page.get_by_role("heading", name="audited").wait_for()
    tab.page.locator("section[aria-labelledby=audit]").get_by_text("paused the task").wait_for()
