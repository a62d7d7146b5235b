"""Every page of the dashboard on a living system and on a bare one, and every state in which a page can be."""

import re

import pytest

from browser import PAGES
from living import HOSTILE
from server import until

SAYS = {  # on a living system
    "overview": "one host is down: 127.0.0.1:9", "tasks": "nightly-ledger", "executions": "By worker", "calendar": "fires are to come", "workflows": "settlement-daily",
    "dlq": "One cause has 23 of them", "queues": "are paused", "nodes": "is the leader", "alerts": "told to", "admin": "admin00001",
}
COMMANDS = {  # which a page on a bare system shows, to fill it
    "overview": "belfry add --in 5s", "tasks": "belfry add", "executions": "belfry add", "calendar": "belfry add --cron", "workflows": "belfry workflow apply", "dlq": "belfry add",
    "queues": "belfry queue set", "alerts": "belfry notify add",
}


def test_pages_answer_their_questions(alive, tabs):
    tab = tabs(alive)
    if not alive.api("GET", "/v1/incidents?state=OPEN")["incidents"]:  # another test has mended all that failed
        alive.api("POST", "/v1/tasks", {"name": "fails-anew", "target_type": "HTTP_CALLBACK", "retry": {"max_attempts": 1},
                                        "target_config": {"url": alive.sink_url + "/status/454/anew"}})
        until(lambda: alive.api("GET", "/v1/incidents?state=OPEN")["incidents"], why="no incident is open")
    for name in PAGES:
        tab.open("tasks?name=nightly*" if name == "tasks" else name)
        tab.page.locator("#main").get_by_text(re.compile(re.escape(SAYS[name]), re.I)).first.wait_for()
        assert tab.overflow() == 0, name


def test_task_and_run_show_why_and_what(alive, tabs):
    tab = tabs(alive).open(f"tasks/{alive.made['held']['id']}")
    assert "It waits for a slot of the concurrency key 'ledger-eu'" in tab.text() and "month-close-eu" in tab.text()
    tab.page.locator(".explain a").click()
    tab.page.get_by_role("heading", name="month-close-eu").wait_for()
    tab.open(f"tasks/{alive.made['ledger']['id']}")
    text = tab.text()
    for words in ("At 02:30 every day, Europe/Berlin", "Next", "Nationalfeiertag", "5 tries, from 5 s, doubling", '"book": "EU"'):
        assert words in text, words
    tab.open(f"workflows/{alive.made['run']['id']}?step=price")
    tab.page.locator(".graph .step").first.wait_for()
    assert tab.page.locator(".graph .step").count() == 13
    assert "A map over /input/items" in tab.text()


@pytest.mark.dashboard_all
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_empty_page_has_the_command_that_fills_it(bare, tabs, name):
    tab = tabs(bare).open(name)
    assert COMMANDS[name] in tab.page.locator(".empty .command").first.inner_text()
    tab.page.locator(".empty button").first.click()
    assert tab.page.evaluate("navigator.clipboard.readText()").startswith("belfry ")


def test_login_refuses_a_wrong_key_and_says_why(alive, tabs):
    tab = tabs(alive, login=False)
    tab.allowed.append("status of 401")
    tab.page.goto(f"{alive.url}/ui/#/queues")
    tab.page.get_by_label("API key").fill("bf_wrong")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("alert").get_by_text("not valid").wait_for()
    tab.page.get_by_label("API key").fill(alive.server.key)
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("heading", name="Queues").wait_for()  # where one wanted to go


@pytest.mark.dashboard_all
def test_an_ended_session_leads_to_the_login_and_back(alive, tabs):
    tab = tabs(alive).open("queues?name=mail")
    tab.allowed.append("status of 401")
    tab.context.clear_cookies()
    tab.page.get_by_text("The session has ended").wait_for()
    tab.page.get_by_label("API key").fill(alive.server.key)
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("heading", name="mail").wait_for()


def answer(status, detail):
    return lambda route: route.fulfill(status=status, content_type="application/problem+json", json={"title": detail, "status": status, "detail": detail})


@pytest.mark.dashboard_all
def test_a_store_that_is_down_leaves_the_old_data_and_its_age(alive, tabs):
    tab = tabs(alive).open("queues")
    tab.allowed.append("status of 503")
    tab.page.route("**/v1/queues*", answer(503, "the store did not answer within 5 s"))
    tab.page.get_by_role("alert").get_by_text("the store did not answer").wait_for()
    text = tab.text()
    assert "Shown as of" in text and "billing" in text
    tab.page.unroute("**/v1/queues*")
    tab.page.get_by_role("button", name="Try again").click()
    tab.page.get_by_role("alert").wait_for(state="detached")


@pytest.mark.dashboard_all
def test_a_page_that_one_may_not_see_says_so(alive, tabs):
    tab = tabs(alive)
    tab.allowed.append("status of 403")
    tab.page.route("**/v1/executions*", answer(403, "the key lacks the scope tasks:read"))
    tab.page.goto(f"{alive.url}/ui/#/executions")
    tab.page.get_by_role("alert").get_by_text("This key may not see this page").wait_for()


@pytest.mark.dashboard_all
def test_a_key_sees_only_what_it_may_do(alive, tabs):
    reader = alive.api("POST", "/v1/api-keys", {"name": "reader", "scopes": ["tasks:read", "queues:read"]})["key"]
    tab = tabs(alive, login=False)
    tab.allowed.append("status of 40[13]")
    tab.login(reader).page.get_by_role("heading", name="Tasks").wait_for()  # the first page that it may see
    tab.open(f"tasks/{alive.made['ledger']['id']}")
    assert tab.page.get_by_role("button", name="Run now").count() == 0
    assert tab.page.get_by_role("link", name="Admin").count() == 0
    assert tab.open("queues").page.get_by_role("button", name="Pause…").count() == 0


@pytest.mark.dashboard_all
def test_a_lost_stream_is_told_with_the_age_of_the_data(alive, tabs):
    tab = tabs(alive, login=False)
    tab.allowed += ["ERR_FAILED", "net::"]
    tab.page.route("**/v1/events", lambda route: route.abort())
    tab.login().open("queues")
    tab.page.locator(".banner").get_by_text("Not live.").wait_for()
    assert re.search(r"Next try in \d+ s", tab.page.locator(".banner").inner_text())
    tab.page.unroute("**/v1/events")
    tab.page.get_by_role("button", name="Try now").click()
    tab.page.locator(".banner").wait_for(state="detached")


@pytest.mark.dashboard_all
def test_somebody_elses_change_is_shown_beside_ones_own(alive, tabs):
    task = alive.api("POST", "/v1/tasks", {"name": "edited-twice", "target_type": "NOOP", "target_config": {}, "cron_expression": "30 2 * * *", "time_zone": "Europe/Berlin"})
    tab = tabs(alive).open(f"tasks/{task['id']}/edit")
    tab.allowed.append("status of 412")
    alive.api("PATCH", f"/v1/tasks/{task['id']}", {"timeout_ms": 77000})
    tab.page.get_by_label("Expression").fill("10 3 * * *")
    tab.page.get_by_text("+ new").first.wait_for()  # old and new fires, while one types
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_role("heading", name="Changed meanwhile").wait_for()
    assert "77000" in tab.text() and "10 3 * * *" in tab.text()
    tab.page.get_by_role("button", name="Save mine over it").click()
    tab.page.get_by_text("At 03:10 every day").first.wait_for()
    assert alive.api("GET", f"/v1/tasks/{task['id']}")["timeout_ms"] == 77000


def test_texts_that_look_like_markup_are_text(alive, tabs):
    """On every page that shows a field of a user. An alert, an image that is asked for or a console error would be a complaint."""
    made = alive.made["hostile"]
    tab = tabs(alive)
    asked = []
    tab.page.on("request", lambda request: asked.append(request.url))
    routes = (*PAGES, "dlq?show=all", "queues?name=hostile", f"tasks/{made['task']['id']}", f"workflows/{made['run']['id']}?step=a", f"tasks/{made['task']['id']}/edit",
              "tasks?name=%3Cimg*", "tasks?queue=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    for route in routes:
        tab.open(route)
        assert tab.page.locator("main img, main script, main iframe").count() == 0, route
    tab.open(f"tasks/{made['task']['id']}")
    assert HOSTILE in tab.page.locator("h1").text_content()
    assert not [url for url in asked if not url.startswith(alive.url)]


@pytest.mark.dashboard_all
def test_an_event_makes_the_page_ask_again(alive, tabs):
    tab = tabs(alive, login=False)
    tab.page.route("**/v1/events", lambda route: route.fulfill(content_type="text/event-stream", body='retry: 1000\n\nevent: task\ndata: {"id": "x"}\n\n'))
    tab.login().open("queues")
    with tab.page.expect_request("**/v1/queues*", timeout=4500):  # polling would take 5 s
        pass


@pytest.mark.dashboard_all
def test_paused_updates_ask_for_nothing(alive, tabs):
    tab = tabs(alive).open("queues")
    tab.page.keyboard.press("p")
    tab.page.get_by_role("button", name="Paused").wait_for()
    asked = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.wait_for_timeout(6000)
    assert not asked


@pytest.mark.dashboard_all
def test_one_tab_of_a_browser_holds_the_stream(alive, tabs):
    first = tabs(alive)
    streams = []
    first.context.on("request", lambda request: streams.append(request.url) if request.resource_type == "eventsource" else None)
    first.open("queues").page.locator(".top").get_by_text("Live").wait_for()
    second = type(first)(first.context, alive).open("nodes")
    task = alive.api("POST", "/v1/tasks", {"name": "seen-by-both", "target_type": "NOOP", "target_config": {}, "delay": "1h"})
    with second.page.expect_request("**/v1/scheduler/status"):  # by the first tab's stream
        alive.api("POST", f"/v1/tasks/{task['id']}/pause")
    assert len(streams) == 1
    first.page.close()
    second.page.wait_for_timeout(1000)
    assert len(streams) == 2 and not second.complained()
