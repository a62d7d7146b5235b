"""One truth on all pages: what is late is on the overview, figures agree, rows can be told apart, and what a key may not see is said."""

import pytest

from server import until

HOOK = {"delivery_type": "HTTP_WEBHOOK", "group_wait": "0s"}


@pytest.fixture(scope="module")
def late(alive):
    """Two tasks that missed what is expected of them, told by a setting. Returns its name and the incidents."""
    hook = {**HOOK, "delivery_config": {"url": alive.sink_url + "/told"}, "filter": {"name": "deadman-*"}}
    own = alive.api("POST", "/v1/notification-settings", {"name": "deadmen", "on_missed": True, **hook})
    for name in ("deadman-a", "deadman-b"):
        alive.api("POST", "/v1/tasks", {"name": name, "target_type": "NOOP", "target_config": {}, "interval_seconds": 3600, "expect": {"within_seconds": 1}})
    of = lambda: [i for i in alive.api("GET", "/v1/incidents?state=OPEN&limit=100")["incidents"] if i["setting"] == own["id"]]
    until(lambda: {t["name"] for i in of() for t in i["tasks"]} == {"deadman-a", "deadman-b"}, why="the checks are not late")
    yield own, of()
    alive.api("DELETE", f"/v1/notification-settings/{own['id']}")


def test_what_is_late_is_on_the_overview_and_its_row_names_the_task(alive, tabs, late):
    tab = tabs(alive).open("overview")
    tab.page.locator("section[aria-labelledby=needs]").get_by_text("deadman-").first.wait_for()
    total = sum(g["count"] for g in alive.api("GET", "/v1/dlq?group_by=cause")["groups"])
    figure = tab.page.locator("a.figure").filter(has_text="Dead letters")
    assert "in all" not in figure.inner_text() or figure.locator(".value").inner_text() == f"{total:,}"
    for incident in late[1]:
        row = tab.open("alerts").page.locator(f'tr[data-row="{incident["id"]}"]')
        assert incident["tasks"][0]["name"] in row.inner_text()
    tab.page.set_viewport_size({"width": 360, "height": 740})
    assert "told to deadmen" in row.inner_text() and tab.overflow() == 0


def test_the_link_of_an_older_message_opens_its_incident(alive, tabs, late):
    incident = late[1][0]
    tab = tabs(alive).open(f"alerts/{incident['id']}")
    tab.page.locator(f'tr[data-row="{incident["id"]}"].opened').wait_for()
    own = alive.api("POST", "/v1/notification-settings", {"name": "over", "on_failure": True, "filter": {"name": "is-over"}, **HOOK,
                                                          "delivery_config": {"url": alive.sink_url + "/told"}})["id"]
    alive.api("POST", "/v1/tasks", {"name": "is-over", "target_type": "HTTP_CALLBACK", "retry": {"max_attempts": 1},
                                    "target_config": {"url": alive.sink_url + "/status/452/over"}})
    over = until(lambda: [i for i in alive.api("GET", "/v1/incidents?limit=100")["incidents"] if i["setting"] == own], why="no incident was opened")[0]
    alive.api("DELETE", f"/v1/notification-settings/{own}")
    closed = lambda: alive.api("GET", f"/v1/incidents/{over['id']}", expect=(200, 404)).get("state") == "CLOSED"
    until(closed, why="it was not closed with its setting")
    tab.open(f"alerts?incident={over['id']}").page.locator(f'tr[data-row="{over["id"]}"].opened').wait_for()
    assert "is-over" in tab.page.locator("tr.opened").inner_text()


def test_what_a_key_may_not_see_is_said(alive, tabs):
    alive.api("POST", "/v1/tenants", {"name": "meagre"}, expect=(201, 409))
    key = alive.api("POST", "/v1/api-keys", {"name": "reader", "scopes": ["tasks:read"], "tenant": "meagre"})["key"]
    tab = tabs(alive, login=False).login(key)
    tab.page.get_by_text("This key may not see dead letters, incidents, queues and breakers, and workflows.").wait_for()
    assert "All is well" not in tab.text() and "Dead letters" not in tab.text()
    assert "it lacks notifications:read" in tab.open("alerts").text()
    assert "may not see tenants and API keys" in tab.open("admin").text()


@pytest.mark.dashboard_all
def test_all_of_a_redrive_are_counted(alive, tabs):
    path = alive.sink_url + "/status/453/again"
    tasks = [alive.api("POST", "/v1/tasks", {"name": f"counted-{n}", "target_type": "HTTP_CALLBACK", "target_config": {"url": path}, "retry": {"max_attempts": 1}})
             for n in range(13)]
    state = lambda: {alive.api("GET", f"/v1/tasks/{t['id']}")["status"] for t in tasks}
    until(lambda: state() == {"FAILED"}, why="they did not fail")
    cause = alive.api("GET", f"/v1/dlq/{tasks[0]['id']}")["cause"]
    for task in tasks:
        alive.api("PATCH", f"/v1/tasks/{task['id']}", {"target_config": {"url": alive.sink_url + "/fine"}}, expect=(200, 409))
    job = alive.api("POST", "/v1/dlq/retry", {"filter": {"cause": cause}, "rate": 50, "max_failed_percent": 100})
    until(lambda: alive.api("GET", f"/v1/jobs/{job['id']}")["state"] == "DONE" and not state() & {"RUNNING", "SCHEDULED"}, why="the re-drive did not end")
    ok = sum(alive.api("GET", f"/v1/tasks/{t['id']}")["status"] == "COMPLETED" for t in tasks)
    shown = tabs(alive).open(f"dlq?job={job['id']}").page.locator("div.job").filter(has_text=job["id"][:13])
    shown.get_by_text(f"{ok} completed, {13 - ok} failed again").wait_for()


def test_signing_keys_are_made_rotated_chosen_and_removed(alive, tabs):
    tab = tabs(alive).open("admin")
    tab.page.get_by_role("button", name="New signing key…").click()
    dialog = tab.page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="curl").count() == 0  # a command without a name would fail
    dialog.get_by_label("Name").fill("partner")
    dialog.get_by_role("button", name="CLI").wait_for()
    dialog.get_by_label("Algorithm").select_option("ED25519")
    dialog.get_by_label("Host").fill("*.example.com")
    dialog.get_by_role("button", name="Create").click()
    tab.page.get_by_role("dialog", name="The public key of partner").get_by_role("button", name="Close").click()
    row = tab.page.get_by_role("table", name="Signing keys").get_by_role("row").filter(has_text="partner")
    row.get_by_role("button", name="Public key").click()
    key = next(k for k in alive.api("GET", "/v1/signing-keys")["signing_keys"] if k["name"] == "partner")
    assert tab.page.evaluate("navigator.clipboard.readText()") == key["public_key"] and "*.example.com" in row.inner_text()
    row.get_by_role("button", name="Rotate partner").click()
    dialog.get_by_role("button", name="Rotate").click()
    tab.page.get_by_role("dialog", name="The public key of partner").get_by_role("button", name="Close").click()
    row.get_by_text("ED25519, until").wait_for()
    tab.open("alerts").page.get_by_role("button", name="New setting…").click()
    assert dialog.get_by_role("button", name="Create").evaluate("e => e.getBoundingClientRect().bottom <= innerHeight")
    dialog.get_by_role("textbox", name="Name", exact=True).fill("signed")
    dialog.get_by_label("Of the user").fill("u-1")
    dialog.get_by_label("URL").fill("https://hooks.example.com/told")
    dialog.get_by_label("Signing key").select_option(key["id"])
    dialog.get_by_label("Only of the queue").fill("nothing")
    dialog.get_by_role("button", name="Create").click()
    dialog.wait_for(state="detached")
    made = next(s for s in alive.api("GET", "/v1/notification-settings?limit=100")["notification_settings"] if s["name"] == "signed")
    assert made["user_id"] == "u-1" and made["delivery_config"]["signing_key"] == key["id"]
    alive.api("DELETE", f"/v1/notification-settings/{made['id']}")
    tab.open("admin").page.get_by_role("button", name="Remove partner").click()
    dialog.get_by_role("button", name="Remove").click()
    row.wait_for(state="detached")


@pytest.mark.dashboard_all
def test_who_may_only_read_signing_keys_changes_none(alive, tabs):
    alive.api("POST", "/v1/tenants", {"name": "signer"}, expect=(201, 409))
    admin = alive.api("POST", "/v1/api-keys", {"name": "a", "scopes": ["admin"], "tenant": "signer"})["key"]
    alive.api("POST", "/v1/signing-keys", {"name": "theirs"}, key=admin)
    tab = tabs(alive, login=False).login(alive.api("POST", "/v1/api-keys", {"name": "r", "scopes": ["signing-keys:read", "tasks:read"], "tenant": "signer"})["key"])
    tab.open("admin").page.get_by_role("table", name="Signing keys").get_by_text("theirs").wait_for()
    assert tab.page.get_by_role("button", name="Rotate").count() == tab.page.get_by_role("button", name="New").count() == 0


@pytest.mark.dashboard_all
def test_a_new_task_says_nothing_of_its_fires_until_they_are_known(alive, tabs):
    tab = tabs(alive)
    asked = []
    tab.page.route("**/v1/preview*", lambda route: asked.append(route))  # not answered yet
    tab.open("tasks/new")
    until(lambda: asked or tab.page.wait_for_timeout(50), why="no preview was asked for")
    assert "never fire" not in tab.text()
    asked[0].continue_()
    tab.page.locator("section[aria-labelledby=preview]").get_by_text("as scheduled").first.wait_for()


@pytest.mark.dashboard_all
def test_the_first_action_of_a_completed_task_is_harmless_and_decisions_have_commands(alive, tabs):
    task = alive.api("POST", "/v1/tasks", {"name": "all-done", "target_type": "NOOP", "target_config": {}})
    until(lambda: alive.api("GET", f"/v1/tasks/{task['id']}")["status"] == "COMPLETED", why="it did not run")
    tab = tabs(alive).open(f"tasks/{task['id']}")
    tab.page.keyboard.press(".")
    assert "Delete" not in tab.page.evaluate("document.activeElement.innerText + (document.activeElement.ariaLabel ?? '')")
    run = alive.api("POST", "/v1/workflows", {"name": "decided", "definition": {"steps": [{"name": "ok", "await": {"signal": "ok", "approvals": 1}}]}})
    tab.open(f"workflows/{run['id']}").page.get_by_text("It waits for a person").wait_for()
    for name in ("Approve", "Reject…", "Pause"):
        for how in ("curl", "CLI"):
            tab.page.get_by_role("button", name=f"{name.rstrip('…')}").filter(has_text=how).first.wait_for()
    tab.page.get_by_role("button", name="Approve as CLI").click()
    assert tab.page.evaluate("navigator.clipboard.readText()") == f"belfry workflow signal {run['id']} ok --server {alive.url}"
