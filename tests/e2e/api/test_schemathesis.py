"""schemathesis reads /openapi.json, makes requests of it and judges the answers by all of its checks: what the description allows is
accepted, what it forbids is refused, no answer is a surprise, and what a request created can be found by the next.

In ./test the seed is fixed and the requests are few. In ./test long the seed is new, and each bound of each field is tried.
"""

import os
import random
import re
import subprocess

import pytest

from cluster import LONG
from conftest import ROOT

FOLDER = ROOT / "tests/e2e/api/schemathesis"
PROGRAM = ROOT / "build-python/bin/schemathesis"
TIMEOUT_S = 1800 if LONG else 300  # on a machine that does other work, too
SEED = int(os.environ.get("BELFRY_TEST_SEED") or (random.randrange(1 << 31) if LONG else 1))
HOW = ["--max-examples", "100"] if LONG else ["--max-examples", "8", "--phases", "examples,fuzzing,stateful"]


def ask(server, folder):
    command = [PROGRAM, "--config-file", FOLDER / "schemathesis.toml", "run", f"{server.url}/openapi.json", "--no-color", "--seed", str(SEED),
               "-H", f"Authorization: Bearer {server.key}", *HOW]
    return subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(FOLDER)}, text=True, timeout=TIMEOUT_S,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


@pytest.mark.begins_early
@pytest.mark.standalone("the description is the same on every node")
def test_no_request_that_the_description_leads_to_is_a_surprise(server, client, tmp_path, counts):
    if not PROGRAM.exists():
        pytest.skip("schemathesis: scripts/install-python-tools could not install it, or was not run")
    assert client.request("PUT", "/v1/calendars/holidays", {"excluded_weekdays": ["SUN"]}).status == 201
    assert client.request("PUT", "/v1/workflow-definitions/flow", {"steps": [{"name": "a", "target_type": "NOOP"}]}).status == 201
    done = ask(server, tmp_path)
    assert done.returncode == 0, f"seed {SEED}:\n{done.stdout}"
    cases = int(re.search(r"(\d+) generated", done.stdout)[1])
    links = int(re.search(r"API Links: +(\d+) covered", done.stdout)[1])
    counts(f"schemathesis, seed {SEED}: {cases} requests, {links} links from one answer to the next request")
    assert cases > 300 and links > 0, done.stdout
    assert server.runs() and server.client().get("/health").status == 200  # a connection that was idle for a minute is closed
