"""What holds a task, told where one looks for it: in lists, in the task's banner, after Run now, and with the place where one opens it."""

import pytest

from server import until


def find(alive, name):
    return alive.api("GET", f"/v1/tasks?name={name}&limit=1")["tasks"][0]["id"]


def test_lists_say_what_holds_a_task(alive, tabs):
    tab = tabs(alive)
    asked = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.open("tasks?name=mailing-*")
    tab.page.locator("tr[data-row]").first.get_by_text("queue mail is paused").wait_for()
    assert len([url for url in asked if "/v1/queues" in url or "/v1/tasks/" in url]) == 1  # one for all rows
    tab.open("tasks?name=cart-reminders")  # recurring
    tab.page.locator("tr[data-row]").first.get_by_text("queue mail is paused").wait_for()
    until(lambda: alive.api("GET", "/v1/breakers")["breakers"], why="no breaker opened")
    tab.open("tasks?name=charge-order-*&status=SCHEDULED")
    tab.page.get_by_text("breaker of 127.0.0.1:9").first.wait_for()
    tab.open("queues")
    row = tab.page.locator("tr[data-row=billing]")
    row.get_by_text("breaker of 127.0.0.1:9: ").wait_for()
    row.get_by_role("link", name="127.0.0.1:9").click()
    tab.page.locator("tr.focused").get_by_role("button", name="Close").wait_for()


@pytest.mark.dashboard_all
def test_a_recurring_task_of_a_paused_queue_has_the_banner_and_run_now_says_that_it_waits(alive, tabs):
    tab = tabs(alive).open(f"tasks/{find(alive, 'cart-reminders')}")
    tab.page.locator(".explain").get_by_text("Its queue mail is paused").wait_for()
    tab.page.locator(".explain").get_by_role("link", name="Resume it on Queues").wait_for()
    tab.open(f"tasks/{find(alive, 'mailing-5')}")
    tab.page.locator(".head").get_by_role("button", name="Run now").click()
    tab.page.locator(".toast").get_by_text("mailing-5 is due now, but it waits: its queue mail is paused").wait_for()


@pytest.mark.dashboard_all
def test_the_banner_of_a_breaker_leads_to_its_button(alive, tabs):
    until(lambda: alive.api("GET", "/v1/breakers")["breakers"], why="no breaker opened")
    held = until(lambda: alive.api("GET", "/v1/tasks?name=charge-order-*&status=SCHEDULED&limit=30")["tasks"], why="no order waits")[-1]
    tab = tabs(alive).open(f"tasks/{held['id']}")
    tab.page.locator(".explain").get_by_role("link", name="Close the breaker").click()
    tab.page.locator("tr.focused").get_by_text("127.0.0.1:9").wait_for()
    tab.page.keyboard.press(".")
    assert tab.page.evaluate("document.activeElement.innerText") == "Close"


@pytest.mark.dashboard_all
def test_a_queue_is_paused_by_keyboard_on_the_row_that_is_highlighted(alive, tabs):
    for name in ("keys-a", "keys-b", "keys-c"):
        alive.api("PUT", f"/v1/queues/{name}", {"max_concurrent": 1})
    tab = tabs(alive).open("queues")
    keys = tab.page.keyboard
    names = tab.page.locator("tr[data-row]").evaluate_all("rows => rows.map(r => r.dataset.row)")
    for _ in range(names.index("keys-b") + 1):
        keys.press("j")
    keys.press("Enter")  # at once: the row may not be drawn as highlighted yet
    tab.page.get_by_role("heading", name="keys-b").wait_for()
    tab.page.wait_for_function("() => document.activeElement.id === 'queue'")
    keys.press("j")
    keys.press(".")
    keys.press("Enter")
    dialog = tab.page.get_by_role("dialog", name="Pause queue keys-c?")
    dialog.get_by_label("Reason").wait_for()
    keys.type("a drill")
    keys.press("Enter")
    tab.page.locator("tr[data-row=keys-c]").get_by_text("a drill").wait_for()
    assert tab.page.evaluate("document.activeElement !== document.body")
    states = {q["name"]: q["state"] for q in alive.api("GET", "/v1/queues?limit=100")["queues"]}
    assert (states["keys-a"], states["keys-b"], states["keys-c"]) == ("open", "open", "paused")
    tab.open("queues?name=keys-b")
    assert tab.page.locator("aside").get_by_role("button", name="Pause").count() == 3  # the action, and its two commands
    tab.page.locator("aside").get_by_role("button", name="Pause…", exact=True).click()
    dialog = tab.page.get_by_role("dialog", name="Pause queue keys-b?")
    dialog.get_by_label("Until").fill("9999999d")
    tab.allowed.append("status of 400")
    dialog.get_by_role("button", name="Pause").click()
    dialog.get_by_role("alert").wait_for()
    assert "is longer than" in dialog.get_by_role("alert").inner_text() and tab.page.evaluate("document.activeElement.name") == "until"
