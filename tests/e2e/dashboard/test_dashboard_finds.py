"""What one looks for in the dashboard: a task by a word, the busiest day of a quarter, another tenant's figures, how a re-drive fares."""

import re

import pytest

from server import until


def new_task(alive, name, **fields):
    return alive.api("POST", "/v1/tasks", {"name": name, "target_type": "NOOP", "target_config": {}, "delay": "1h", **fields})


def rows(tab):
    return tab.page.locator("tr[data-row]")


def test_a_search_finds_names_keys_and_payloads(alive, tabs):
    task = new_task(alive, "sought-by-name", concurrency_key="sought-by-key", payload={"sought": "by payload"})
    tab = tabs(alive).open("overview")
    for text in ("ought-by-name", "sought-by-key", "payload:by payload", task["id"][:20]):
        tab.page.keyboard.press("/")
        tab.page.get_by_label("Search tasks").fill(text)
        tab.page.keyboard.press("Enter")
        tab.page.locator(f'tr[data-row="{task["id"]}"]').wait_for()
        assert rows(tab).count() == 1, text
        tab.page.keyboard.press("Escape")
    tab.open("tasks?search=payload%3Anobody+has+this").page.get_by_text("0 found. All").wait_for()
    tab.page.get_by_text("No task matches").wait_for()
    tab.page.get_by_role("button", name="Search again").click()
    tab.page.get_by_role("button", name="Remove filter search").click()
    tab.page.get_by_text(" in all").first.wait_for()


def test_a_long_search_says_how_far_it_came_and_is_stopped(alive, tabs):
    """Slices are planted, so that there are many: a store of a test is searched in one."""
    task = alive.api("GET", "/v1/tasks?limit=1&view=brief")["tasks"][0]
    tab = tabs(alive).open("overview")
    asked = []

    def slice_(route):
        asked.append(route.request.url)
        n = len(asked)
        route.fulfill(json={"tasks": [{**task, "id": f"01a1eae4-65b2-7070-968f-{n:012d}"}] if n % 5 == 0 else [], "search": {"looked_at": 1000, "back_to": "2026-01-02T03:04:05Z", "complete": False},
                            "pagination": {"limit": 100, "has_more": True, "next_cursor": f"c{n}"}})

    tab.page.route("**/v1/tasks?*search=*", slice_)
    tab.page.goto(f"{alive.url}/ui/#/tasks?search=payload%3Ax")
    bar = tab.page.get_by_role("group", name="Search", exact=True)
    bar.get_by_text("Searching: ").wait_for()
    until(lambda: len(asked) > 12 or tab.page.wait_for_timeout(50), why="it does not go on by itself")
    bar.get_by_role("button", name="Stop").click()
    bar.get_by_role("button", name="Go on").wait_for()
    tab.page.wait_for_timeout(300)  # the slice under way
    count = len(asked)
    assert f"{count},000 tasks looked at, back to" in bar.inner_text() and "Searching" not in bar.inner_text()
    assert rows(tab).count() == count // 5
    assert f"cursor=c{count - 1}" in asked[-1]
    bar.get_by_role("button", name="Go on").click()
    until(lambda: len(asked) > count + 2 or tab.page.wait_for_timeout(50), why="it does not go on")
    bar.get_by_role("button", name="Stop").click()


def test_a_quarter_shows_its_fullest_day_and_opens_it(alive, tabs):
    tab = tabs(alive).open("calendar?by=quarter")
    tab.page.get_by_text("The fullest day is").wait_for()
    assert tab.page.locator(".heat rect[data-at]").count() > 90 * 23
    assert "Nationalfeiertag" in tab.text() and "Clocks go" in tab.text() and tab.overflow() == 0
    tab.page.get_by_role("link", name="Table").click()
    tab.page.get_by_role("heading", name="By week").wait_for()
    tab.page.locator("section[aria-labelledby=weeks] a").nth(1).click()
    tab.page.get_by_role("heading", name="By hour").wait_for()


def test_a_quarter_fits_into_a_phone(alive, tabs):
    tab = tabs(alive, viewport={"width": 360, "height": 800}).open("calendar?by=quarter")
    tab.page.get_by_text("The fullest day is").wait_for()
    assert tab.page.locator(".heat rect[data-at]").count() == 91 and tab.overflow() == 0


@pytest.mark.dashboard_all
def test_budgets_and_the_figures_of_another_tenant(alive, tabs):
    alive.api("POST", "/v1/tenants", {"name": "acme"}, expect=(201, 409))
    tab = tabs(alive).open("overview")
    tab.page.get_by_role("heading", name="Error budgets").wait_for()
    assert "Starts within 5 s" in tab.text() and "99.99 %" in tab.text()
    tab.page.get_by_label("Figures of").select_option("acme")
    tab.page.get_by_text("Keys of acme").wait_for()
    tab.page.get_by_text("There are no figures of acme").wait_for()
    tab.page.get_by_label("Figures of").select_option("all tenants")
    tab.page.get_by_text(re.compile("Start delay|There are no figures of all tenants")).first.wait_for()  # figures come with the first minute


def fail(alive, name, status):
    return alive.api("POST", "/v1/tasks", {"name": name, "target_type": "HTTP_CALLBACK", "target_config": {"url": f"{alive.sink_url}/status/{status}/x"}, "retry": {"max_attempts": 1}})


@pytest.mark.dashboard_all
def test_a_canary_has_a_link_and_is_stopped_at_its_first_stage(alive, tabs):
    letters = [fail(alive, f"canary-{n}", 460) for n in range(13)]
    until(lambda: all(alive.api("GET", f"/v1/tasks/{t['id']}")["status"] == "FAILED" for t in letters), why="they did not fail")
    alive.api("PATCH", "/v1/queues/default", {"paused": {"reason": "so that the first one waits", "for": "5m"}})
    try:
        tab = tabs(alive).open("dlq")
        rows(tab).filter(has_text="HTTP 460").get_by_role("button", name="Re-drive…").click()
        tab.page.get_by_role("dialog").get_by_role("button", name="Begin with one").click()
        job = tab.page.get_by_role("group", name="Re-drive")
        job.get_by_text("It waits until this one has ended, and judges then.").wait_for()
        assert "job=" in tab.page.url
        tab.page.reload()  # the link holds it
        job.get_by_text("It waits until this one has ended").wait_for()
        job.get_by_role("button", name="Stop", exact=True).click()
        job.get_by_text("Re-drive was stopped").wait_for()
    finally:
        alive.api("PATCH", "/v1/queues/default", {"paused": False})
    assert "1 of 1" in job.inner_text() and "0 of 10" in job.inner_text()
    job.get_by_role("link", name="Close").click()
    tab.page.get_by_role("region", name="The re-drive").wait_for(state="detached")


@pytest.mark.dashboard_all
def test_a_canary_goes_through_its_stages_and_ends(alive, tabs):
    letters = [fail(alive, f"mended-{n}", 461) for n in range(13)]
    until(lambda: all(alive.api("GET", f"/v1/tasks/{t['id']}")["status"] == "FAILED" for t in letters), why="they did not fail")
    for letter in letters:  # what broke them is mended
        alive.api("PATCH", f"/v1/tasks/{letter['id']}", {"target_config": {"url": alive.sink_url + "/fine"}})
    tab = tabs(alive).open("dlq")
    rows(tab).filter(has_text="HTTP 461").get_by_role("button", name="Re-drive…").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Begin with one").click()
    tab.page.get_by_role("group", name="Re-drive").get_by_text("Re-drive is done").wait_for()
    assert "13 completed, 0 failed again" in tab.text()
    tab.page.reload()
    tab.page.get_by_role("group", name="Re-drive").get_by_text("Re-drive is done").wait_for()
