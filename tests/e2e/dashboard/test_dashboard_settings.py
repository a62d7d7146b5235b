"""Alerts: who is told is set in the dashboard, by keyboard alone too; what is acknowledged is over; the runbook is beside its rule."""

import pytest

from server import until


def settings(system):
    return {s["name"]: s for s in system.api("GET", "/v1/notification-settings?limit=100")["notification_settings"]}


def choose(tab, label, text):
    """As somebody without a pointer does: Tab to the field, type over it."""
    for _ in range(60):
        if tab.page.evaluate("document.activeElement?.labels?.[0]?.innerText ?? ''").startswith(label):
            break
        tab.page.keyboard.press("Tab")
    else:
        raise AssertionError(f"Tab does not reach {label}")
    if text is True:
        tab.page.keyboard.press("Space")
    else:
        tab.page.keyboard.press("Control+a")
        tab.page.keyboard.type(text)


def test_a_setting_is_made_with_the_keyboard_and_errors_stand_beside_their_fields(alive, tabs):
    tab = tabs(alive).open("alerts")
    tab.allowed.append("status of 400")
    tab.page.get_by_role("button", name="New setting…").focus()
    tab.page.keyboard.press("Enter")
    dialog = tab.page.get_by_role("dialog")
    choose(tab, "Name", "night shift")
    choose(tab, "URL", "ftp://example.com/hook")
    choose(tab, "missed", True)
    choose(tab, "Only of the queue", "bill*")
    tab.page.keyboard.press("Enter")
    dialog.get_by_role("alert").get_by_text("https://").wait_for()
    assert tab.page.evaluate("document.activeElement.name") == "delivery_config.url"
    choose(tab, "URL", alive.sink_url + "/told")
    tab.page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    row = tab.page.get_by_role("table", name="Settings").get_by_role("row").filter(has_text="night shift")
    row.get_by_text("/told").wait_for()  # where it goes
    made = settings(alive)["night shift"]
    assert made["filter"] == {"queue": "bill*"} and made["on_missed"] and made["on_failure"] and not made["on_success"]
    alive.api("DELETE", f"/v1/notification-settings/{made['id']}")


@pytest.mark.dashboard_all
def test_a_setting_is_changed_muted_turned_off_and_removed(alive, tabs):
    alive.api("POST", "/v1/notification-settings", {"name": "pager", "on_failure": True, "delivery_type": "PUSH", "filter": {"queue": "none"},
                                                   "delivery_config": {"url": alive.sink_url, "topic": "ops", "token": "secret-token"}})
    tab = tabs(alive).open("alerts")
    row = tab.page.get_by_role("table", name="Settings").get_by_role("row").filter(has_text="pager")
    row.get_by_role("button", name="Edit pager").click()
    dialog = tab.page.get_by_role("dialog")
    assert dialog.get_by_label("Token").input_value() == "***"
    dialog.get_by_label("Topic").fill("nights")
    dialog.get_by_label("Repeat every").fill("1h")
    dialog.get_by_role("button", name="Save").click()
    row.get_by_text("topic nights").wait_for()
    assert settings(alive)["pager"]["repeat_every"] == "1h" and settings(alive)["pager"]["delivery_config"]["token"] == "***"
    row.get_by_role("link", name="pager").click()
    actions = tab.page.locator(".actions")
    actions.get_by_role("button", name="Mute…", exact=True).click()
    dialog.get_by_label("For").fill("soon")
    dialog.get_by_role("button", name="Mute").click()
    dialog.get_by_role("alert").get_by_text("soon is no duration").wait_for()
    dialog.get_by_label("For").fill("8h")
    dialog.get_by_role("button", name="Mute").click()
    row.get_by_text("Muted").first.wait_for()
    actions.get_by_role("button", name="Unmute", exact=True).click()
    row.get_by_text("On", exact=True).wait_for()
    actions.get_by_role("button", name="Turn off", exact=True).click()
    row.get_by_text("Off", exact=True).wait_for()
    actions.get_by_role("button", name="Send a test", exact=True).click()
    tab.page.locator(".toast").get_by_text("pager: ").wait_for()
    actions.get_by_role("button", name="Remove…", exact=True).click()
    assert "its open incidents are closed" in dialog.inner_text()
    dialog.get_by_role("button", name="Remove").click()
    row.wait_for(state="detached")
    assert "pager" not in settings(alive)


@pytest.mark.dashboard_all
def test_an_acknowledged_incident_offers_no_acknowledgement(alive, tabs):
    own = alive.api("POST", "/v1/notification-settings", {"name": "ack", "on_failure": True, "filter": {"name": "to-acknowledge"}, "group_wait": "0s",
                    "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": alive.sink_url + "/told"}})["id"]
    alive.api("POST", "/v1/tasks", {"name": "to-acknowledge", "target_type": "HTTP_CALLBACK", "retry": {"max_attempts": 1},
                                    "target_config": {"url": alive.sink_url + "/status/451/ack"}})
    found = lambda: [i for i in alive.api("GET", "/v1/incidents?state=OPEN&limit=100")["incidents"] if i["setting"] == own]
    incident = until(found, why="the failure opened no incident")[0]
    tab = tabs(alive).open(f"alerts?incident={incident['id']}")
    inner = tab.page.locator("tr.inner")
    inner.get_by_role("button", name="Acknowledge", exact=True).click()
    inner.get_by_text("Acknowledged by").wait_for()
    assert inner.get_by_role("button", name="Acknowledge").count() == 0
    inner.get_by_role("button", name="Mute", exact=True).wait_for()
    alive.api("DELETE", f"/v1/notification-settings/{own}")


@pytest.mark.dashboard_all
def test_a_rule_has_its_section_of_the_runbook(alive, tabs):
    tab = tabs(alive).open("alerts")
    tab.page.get_by_role("link", name="Runbook of BelfryQueueDeep").click()
    tab.page.locator(".runbook").get_by_text("Meaning.").wait_for()
    assert "Mend." in tab.page.locator(".runbook").inner_text()
    assert "**" not in tab.page.locator(".runbook").inner_text()
