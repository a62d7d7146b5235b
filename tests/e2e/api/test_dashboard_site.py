"""The files of the dashboard at /ui/: what a browser gets, what it may keep, and what the answers forbid."""

import gzip
import re

import pytest

from conftest import ROOT

pytestmark = pytest.mark.shared

FOLDER = ROOT / "src/dashboard"
CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
       "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


@pytest.fixture
def browser(server):
    client = server.client(check=lambda *_: None)  # openapi.json does not describe pages
    yield lambda path, method="GET", **headers: client.request(method, path, auth=False, headers={k.replace("_", "-"): v for k, v in headers.items()})
    client.close()


def folder_of(browser):
    """/ui/HASH, as the index names it."""
    return re.search(rb'src="(/ui/[0-9a-f]{16})/main.js"', browser("/ui/").body)[1].decode()


def test_every_file_is_served_as_it_is_in_the_tree(browser):
    folder = folder_of(browser)
    files = [f for f in FOLDER.rglob("*") if f.suffix in KINDS]
    assert len(files) > 20
    for file in files:
        path = f"{folder}/{file.relative_to(FOLDER)}"
        plain, packed = browser(path), browser(path, Accept_Encoding="gzip, br")
        assert plain.status == packed.status == 200, path
        assert plain.body == gzip.decompress(packed.body) == file.read_bytes()
        assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
        for answer in (plain, packed):
            assert answer.headers["content-type"] == KINDS[file.suffix]
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


def test_the_index_is_asked_for_again_and_names_files_that_exist(browser):
    index = browser("/ui/")
    assert index.status == 200 and index.headers["cache-control"] == "no-cache" and b"{hash}" not in index.body
    named = re.findall(r'(?:href|src)="(/ui/[^"]+)"', index.body.decode())
    assert len(named) > 10 and all(browser(path, "HEAD").status == 200 for path in named)
    again = browser("/ui/", If_None_Match=index.headers["etag"])
    assert again.status == 304 and again.body == b"" and again.headers["etag"] == index.headers["etag"]
    head = browser("/ui/", "HEAD")
    assert head.body == b"" and int(head.headers["content-length"]) == len(index.body)


def test_every_answer_to_a_browser_forbids_what_the_pages_do_not_need(browser):
    for path, status in (("/ui/", 200), (f"{folder_of(browser)}/main.js", 200), ("/ui/nothing", 404)):
        answer = browser(path)
        assert answer.status == status and answer.headers["content-security-policy"] == CSP
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY" and answer.headers["cross-origin-opener-policy"] == "same-origin"


@pytest.mark.parametrize("path", ["x", "0123456789abcdef/main.js", "HASH/", "HASH/index.html", "HASH/README.md", "HASH/../../etc/passwd", "HASH/lib", "HASH//main.js"])
def test_what_is_no_file_of_the_dashboard_is_a_short_page(browser, path):
    answer = browser("/ui/" + path.replace("HASH", folder_of(browser).removeprefix("/ui/")))
    assert answer.status == 404 and answer.headers["content-type"].startswith("text/html")
    assert len(answer.body) < 300 and path.encode() not in answer.body and answer.headers["cache-control"] == "no-store"


def test_a_browser_that_asks_for_the_server_gets_the_dashboard(browser):
    answer = browser("/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert answer.status == 302 and answer.headers["location"] == "/ui/"
    assert browser("/ui", Accept="*/*").headers["location"] == "/ui/"
    for accept in ("*/*", "application/json"):
        assert browser("/", Accept=accept).headers["content-type"] == "application/problem+json"
    assert browser("/ui/", "POST").status == 405
