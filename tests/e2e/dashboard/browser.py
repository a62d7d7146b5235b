"""What the dashboard's tests share: one server with a living system, one Chromium, and a page that is logged in.

The tests use the dashboard as a person does, through what it shows. Faults of the server are planted in the browser (page.route).
"""

import contextlib
import functools
import glob
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT
from server import Server

import living

SITE = glob.glob(str(ROOT / "build-python/lib/python3*/site-packages"))
sys.path += [path for path in SITE if path not in sys.path]
CHROMIUM = pathlib.Path("/usr/bin/chromium")
WAIT_MS = 20000  # of a wait: nothing takes so long unless it is broken
PAGES = ("overview", "tasks", "executions", "calendar", "workflows", "dlq", "queues", "nodes", "alerts", "admin")


class Living:
    """A server, something for it to call, and what living.fill made."""

    def __init__(self, folder):
        self.sink = subprocess.Popen([BUILD / "belfry", "sink", "--quiet", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True)
        self.sink_url = re.search(r"http://[\d.]+:\d+", self.sink.stdout.readline())[0]
        self.server = Server(folder).start()
        self.url = self.server.url
        self.api = living.Api(self.server.url, self.server.key)
        self.state = None  # the cookies of a session, which tests share

    @functools.cached_property
    def made(self):
        return living.fill(self.server.url, self.server.key, self.sink_url)

    def close(self):
        self.server.close()
        self.sink.kill()
        self.sink.wait()


@contextlib.contextmanager
def system(folder, prepared_store, fill):
    """A server of its own, with a living system or bare."""
    shutil.copytree(prepared_store, folder)
    system = Living(folder)
    try:
        if fill:
            system.made
        yield system
    finally:
        system.close()


@contextlib.contextmanager
def chromium():
    """One browser. Without it the tests are skipped, and say so."""
    if not CHROMIUM.exists():
        pytest.skip("chromium: Debian's package is not installed")
    if not SITE or not (pathlib.Path(SITE[0]) / "playwright").exists():
        pytest.skip("playwright: scripts/install-python-tools could not install it, or was not run")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Tab:
    """A page of the dashboard. What the browser complains of is collected; quiet() tells of nothing."""

    def __init__(self, context, system):
        self.context, self.system, self.page = context, system, context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.complaints, self.allowed = [], [r"status of 404"]
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.complaints.append(f"error: {e}"))
        self.page.on("dialog", lambda d: (self.complaints.append(f"dialog: {d.message}"), d.dismiss()))

    def login(self, key=None):
        self.allowed.append("status of 401")  # the first question is whether there is a session
        self.page.goto(f"{self.system.url}/ui/")
        self.page.get_by_label("API key").fill(key or self.system.server.key)
        self.page.get_by_role("button", name="Log in").click()
        self.page.locator(".nav").wait_for()
        return self

    def open(self, route):
        """Goes to a view and returns once its data is there."""
        self.page.goto(f"{self.system.url}/ui/#/{route}")
        self.page.locator(f'main[data-route="#/{route}"]:not([aria-busy])').wait_for()
        return self

    def text(self):
        return self.page.locator("#main").inner_text()

    def overflow(self):
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")

    def complained(self):
        return [text for text in self.complaints if not any(re.search(pattern, text) for pattern in self.allowed)]


@contextlib.contextmanager
def tabs(chromium):
    """make(system, **context options): a tab with a session; closed after the test, in which the browser must not complain."""
    with contextlib.ExitStack() as stack:
        made = []

        def make(system, login=True, **options):
            if login and not system.state:
                system.state = make(system, login=False).login().context.storage_state()
            options = {"viewport": {"width": 1440, "height": 900}, "timezone_id": "Europe/Berlin", "storage_state": system.state if login else None, **options}
            context = stack.enter_context(contextlib.closing(chromium.new_context(**options)))
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            tab = Tab(context, system)
            made.append(tab)
            return tab

        yield make
        for tab in made:
            assert not tab.complained(), tab.complained()
