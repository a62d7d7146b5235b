"""What a key of another tenant sees, addresses that are none, and names that try to be paths."""

import pytest

from server import until

PAGES = ("Overview", "Tasks", "Executions", "Calendar", "Workflows", "Dead letters", "Queues", "Alerts", "Admin")


@pytest.fixture(scope="module")
def acme(alive):
    """A tenant with a task that fails, a recurring one, and somebody who is told. Returns the secret of its admin key."""
    alive.api("POST", "/v1/tenants", {"name": "acme"}, expect=(201, 409))
    key = alive.api("POST", "/v1/api-keys", {"name": "acme-admin", "scopes": ["admin"], "tenant": "acme"})["key"]
    hook = {"delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": alive.sink_url + "/told"}, "group_wait": "0s"}
    alive.api("POST", "/v1/notification-settings", {"name": "acme-ops", "on_failure": True, **hook}, key=key)
    task = {"target_type": "HTTP_CALLBACK", "target_config": {"url": alive.sink_url + "/status/409/acme"}, "retry": {"max_attempts": 1}}
    alive.api("POST", "/v1/tasks", {"name": "acme-fails", **task}, key=key)
    alive.api("POST", "/v1/tasks", {"name": "acme-often", "target_type": "NOOP", "target_config": {}, "cron_expression": "*/5 * * * *"}, key=key)
    until(lambda: alive.api("GET", "/v1/incidents?state=OPEN", key=key)["incidents"], why="the failure opened no incident")
    return key


def test_a_key_of_another_tenant_has_a_first_page_and_no_page_that_is_refused(alive, tabs, acme):
    tab = tabs(alive, login=False).login(acme)
    main = tab.page.locator("#main")
    main.get_by_text("Of the tenant acme.").wait_for()
    main.get_by_text("HTTP 409").first.wait_for()  # what needs somebody
    main.get_by_role("link", name="acme-often").wait_for()  # next fires
    assert tuple(tab.page.locator(".nav a").evaluate_all("list => list.map(a => a.firstChild.textContent)")) == PAGES
    refused = []
    tab.page.on("response", lambda answer: refused.append(answer.url) if answer.status == 403 else None)
    for link in tab.page.locator(".nav a").evaluate_all("list => list.map(a => a.hash.slice(2))"):
        tab.open(link)
        assert tab.page.get_by_role("alert").count() == 0, link
    assert not refused
    tab.open("alerts").page.locator("#main").get_by_text("acme-ops").first.wait_for()


@pytest.mark.dashboard_all
@pytest.mark.parametrize("route", ["foo", "queues/foo", "tasks/x/y", "constructor"])
def test_an_address_that_is_none_says_so(alive, tabs, route):
    tab = tabs(alive).open(route)
    tab.page.get_by_role("heading", name="There is no such page").wait_for()
    tab.page.get_by_role("link", name="To the first page").click()
    tab.page.locator("main[data-route='#/overview']").wait_for()


@pytest.mark.dashboard_all
@pytest.mark.parametrize("route", ["tasks/..", "tasks/%2e%2e", "tasks/../edit", "workflows/..", "workflows/.?step=.."])
def test_dots_in_an_address_ask_for_nothing_else(alive, tabs, route):
    tab = tabs(alive)
    asked = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.goto(f"{alive.url}/ui/#/{route}")
    tab.page.get_by_role("alert").get_by_text("There is nothing with this id").wait_for()
    paths = [url.removeprefix(alive.url).split("?")[0] for url in asked]
    assert not [path for path in paths if path in ("/v1/", "/v1", "/") or path.startswith(("/v1/tasks/", "/v1/workflows/")) and ".." in path]


@pytest.mark.dashboard_all
def test_a_name_with_a_slash_is_one_segment(alive, tabs):
    tab = tabs(alive)
    with tab.page.expect_request("**/v1/tasks/a%2Fb%3Fc") as asked:
        tab.page.goto(f"{alive.url}/ui/#/tasks/a%2Fb%3Fc/edit")
    tab.allowed.append("status of 400")
    assert asked.value.method == "GET"
