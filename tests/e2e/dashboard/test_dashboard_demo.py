"""./run --demo: a living system. Ten seconds after its start no page of the dashboard is empty."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
import types

import pytest

from test_start import checkout  # noqa: F401: a fixture

SAYS = {
    "overview": ("one host is down: 127.0.0.1:9", "Error budgets", "Figures of"), "tasks?name=nightly*": ("nightly-ledger", "At 02:30 every day"),
    "executions": ("By worker",), "calendar": ("Founders day", "Stocktaking", "Where it piles up"), "calendar?by=quarter": ("By day and hour", "Clocks go"),
    "workflows": ("settlement", "erase-customer-8812", "nightly-import"), "dlq": ("HTTP 422", "timed out", "HTTP 410"), "queues": ("provider maintenance", "billing"),
    "nodes": ("is the leader", "127.0.0.1:9"), "alerts": ("ops", "HTTP 422"), "admin": ("acme", "globex"), "admin?tenant=acme": ("acme-deploy",),
    "tasks?status=BLOCKED": ("ledger-of-today",), "tasks?status=PAUSED": ("export-of-old-bucket",), "overview?tenant=acme": ("Figures of", "Keys of acme"),
}
WITHIN_S = 10  # on a release build; with sanitizers, and other tests beside it, six times that


@contextlib.contextmanager
def demo(tree, folder):
    """Starts it, and gives the link that logs in. What it prints is read to the end, as a terminal would."""
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    heeds_interrupts = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([tree / "run", "--demo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tree, env=environment, start_new_session=True,
                               preexec_fn=heeds_interrupts)
    lines, ready = [], threading.Event()

    def read():
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C ends it all" in line:
                ready.set()
        ready.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert ready.wait(60), "".join(lines)
        found = re.search(r"http://\S+/ui/#code=\S+", "".join(lines))
        assert found, "".join(lines)
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        reader.join(60)
        code = process.wait(60)
    assert code == 130 and not list(folder.iterdir()), "".join(lines)[-2000:]


@pytest.mark.dashboard_all
def test_no_page_of_the_demo_is_empty_after_ten_seconds(checkout, tmp_path, tabs, counts):  # noqa: F811
    start = time.monotonic()
    with demo(checkout, tmp_path / "tmp") as link:
        tab = tabs(types.SimpleNamespace(url=link.partition("/ui/")[0], state=None), login=False)
        tab.allowed.append("status of 401")
        tab.page.goto(link)
        tab.page.locator(".nav").wait_for()
        for route, words in SAYS.items():
            tab.open(route)
            for word in words:
                tab.page.locator("#main").get_by_text(re.compile(re.escape(word))).first.wait_for()
            assert tab.page.locator(".empty").count() == 0 and tab.overflow() == 0, route
        took = time.monotonic() - start
        tab.open("tasks?name=clock-change-audit").page.get_by_role("link", name="clock-change-audit").click()
        tab.page.locator("section[aria-labelledby=fires] [data-tone=hold]").first.wait_for()  # a night in which clocks change
    counts(f"dashboard: the demo fills every page {took:.1f} s after its start")
    assert took < WITHIN_S * 6
