"""Small things that people stumbled over: numbers that open what they count, toasts that cover nothing, texts that do not lie over each other."""

import re

import pytest

from server import until


@pytest.mark.dashboard_all
def test_numbers_open_what_they_count(alive, tabs):
    tab = tabs(alive).open("dlq")
    heading = tab.page.locator("#main .head").inner_text()
    total = re.search(r"([\d,]+) in \d+ cause", heading)[1]
    tab.page.wait_for_function(f"() => [...document.querySelectorAll('.nav a')].some(a => a.textContent === 'Dead letters{total}')")
    alive.api("PATCH", "/v1/queues/counted", {"paused": {"for": "1h"}})
    for n in range(4):  # the fourth is not due
        alive.api("POST", "/v1/tasks", {"name": f"counted-{n}", "target_type": "NOOP", "target_config": {}, "queue": "counted", "delay": "1h" if n == 3 else "0s"})
    until(lambda: alive.api("GET", "/v1/queues/counted")["due"] == 3, why="three were not due")
    tab.open("queues").page.locator("tr[data-row=counted]").get_by_role("link", name="3", exact=True).click()
    tab.page.get_by_text("3 match").wait_for()


@pytest.mark.dashboard_all
def test_what_more_needs_somebody_opens(alive, tabs):
    for n in range(12):  # one cause each: more than fit
        alive.api("POST", "/v1/workflows", {"name": f"asks-{n}", "definition": {"steps": [{"name": "ok", "await": {"signal": "ok"}}]}})
    tab = tabs(alive).open("overview")
    more = tab.page.get_by_role("button", name=re.compile(r"and \d+ more"))
    more.wait_for()
    before = tab.page.locator("section[aria-labelledby=needs] tbody tr").count()
    more.click()
    tab.page.get_by_role("button", name="only the first 8").wait_for()
    assert tab.page.locator("section[aria-labelledby=needs] tbody tr").count() > before == 8
    for run in alive.api("GET", "/v1/workflows?status=RUNNING&limit=100")["workflows"]:
        if (run["name"] or "").startswith("asks-"):
            alive.api("POST", f"/v1/workflows/{run['id']}/cancel", {})


COVERED = """() => {
    const box = document.querySelector('.toast').getBoundingClientRect();
    return [...document.querySelectorAll('#app :is(a, button, input, select)')].filter(e => {
        const o = e.getBoundingClientRect();
        return o.width && o.left < box.right && o.right > box.left && o.top < box.bottom && o.bottom > box.top;
    }).map(e => e.textContent);
}"""


@pytest.mark.dashboard_all
def test_a_toast_covers_nothing_that_can_be_clicked_and_stays_under_the_pointer(alive, tabs):
    tab = tabs(alive).open("alerts")
    tab.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    tab.page.get_by_role("button", name="Send a test").first.click()
    toast = tab.page.locator(".toast")
    toast.get_by_text("the test message was sent").wait_for()
    tab.page.wait_for_function(COVERED.replace(".map(e => e.textContent)", ".length === 0"))
    toast.hover()
    tab.page.wait_for_timeout(9000)
    assert toast.count() == 1


@pytest.mark.dashboard_all
def test_texts_of_an_attempt_do_not_lie_over_each_other(alive, tabs):
    task = until(lambda: alive.api("GET", "/v1/tasks?name=invoice-*&status=FAILED&limit=1")["tasks"], why="no invoice failed")[0]
    tab = tabs(alive).open(f"tasks/{task['id']}")
    tab.page.locator("section[aria-labelledby=attempts] td button").first.click()
    tab.page.locator(".inner .timeline text").first.wait_for()
    over = tab.page.locator(".inner .timeline").evaluate("""e => {
        const boxes = [...e.querySelectorAll('text')].map(t => t.getBoundingClientRect());
        return boxes.filter((a, i) => boxes.some((b, k) => k > i && a.left < b.right && a.right > b.left && a.top < b.bottom - 2 && a.bottom - 2 > b.top)).length;
    }""")
    assert over == 0
