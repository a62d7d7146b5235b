"""docs/WORKFLOWS.md: its examples are run as they are written there, with the services of docs/examples/workflows, which are also held to what
the page says about the order of calls."""

import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT
from ports import free_port
from test_docs import read, wait_for_port
from test_docs_examples import follow

FOLDER = ROOT / "docs/examples/workflows"
FILES = sorted(FOLDER.glob("*.yaml"))
ITEMS = 300  # instead of 10,000


class Services:
    """services.py, and what it has been called with."""

    def __init__(self, folder):
        self.port = free_port()
        self.log = folder / "services.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([sys.executable, FOLDER / "services.py", str(self.port)], stdout=log)
        wait_for_port(self.port, self.process)

    def calls(self, path=None):
        """[(path, body, status)] in the order of the answers"""
        found = [re.fullmatch(r"(\S+) (.*) (\d+)", line) for line in self.log.read_text().splitlines()]
        return [(m[1], json.loads(m[2]), int(m[3])) for m in found if path in (None, m[1])]

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def services(tmp_path):
    found = Services(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_page_shows_the_file(path):
    assert f"```yaml\n{path.read_text()}```\n" in read("docs/WORKFLOWS.md"), f"docs/WORKFLOWS.md does not have {path.name} as it is"


@pytest.mark.standalone("the page begins with one machine")
def test_the_examples_of_the_page_do_what_it_shows(build, server, services, tmp_path):
    page = tmp_path / "page"
    page.mkdir()
    for path in FILES:
        (page / path.name).write_text(path.read_text().replace("127.0.0.1:9000", f"127.0.0.1:{services.port}"))
    env = {"BELFRY_SERVER": server.url, "BELFRY_KEY": server.key, "BELFRY_DATA_DIR": str(server.data_dir)}
    follow("WORKFLOWS", page, build, env, {"10000": ITEMS})
    check_order(services)
    check_payout(services)
    assert sorted(body["customer"] for _, body, _ in services.calls("/mail")) == list(range(1, ITEMS + 1))
    assert len(services.calls("/done")) == 1
    assert services.calls("/load")[0][1]["parts"][1] == {"file": "orders-2026-02-10.csv", "rows": 600}
    told = [body["failures"] for _, body, _ in services.calls("/tell")]
    assert len(told) == 1 and {"status": "FAILED", "error": "HTTP 422"}.items() <= told[0][0].items()


def check_order(services):
    """Of the order that cannot be shipped: what was done is undone, the latest first."""
    of_18 = [path for path, body, _ in services.calls() if body.get("order") == 18 or body.get("reservation") == "r-18"]
    assert of_18 == ["/stock/reserve", "/payment/charge", "/parcel/book", "/payment/refund", "/stock/release"]


def check_payout(services):
    paid = [body for _, body, _ in services.calls("/pay")]
    assert [body["amount"] for body in paid] == [4000, 40]
    assert [len(body["signed_by"]) for body in paid] == [2, 0]
    assert [body["reason"] for _, body, _ in services.calls("/escalate")] == ["timed out: 0 of 2 signals 'approved' came in time"]
