"""The dashboard's pure modules, tested by the JavaScript in unit/, which runs in Chromium."""

import pathlib

import pytest

UNITS = pathlib.Path(__file__).parent / "unit"
RUN = """async name => {
    const base = new URL('.', document.querySelector('script[type=module]').src);
    const [{ run }, tests] = await Promise.all([import('/unit/unit.js'), import(`/unit/${name}`)]);
    return run(await tests.default(path => import(new URL(path, base))));
}"""


def serve(route):
    path = UNITS / route.request.url.rsplit("/", 1)[1]
    route.fulfill(body=path.read_text(encoding="utf-8"), content_type="text/javascript")


@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.glob("*_test.js")))
def test_units(alive, tabs, counts, name):
    tab = tabs(alive, login=False)
    tab.allowed.append("status of 401")
    tab.page.route("**/unit/*", serve)
    tab.page.goto(f"{alive.url}/ui/")
    done = tab.page.evaluate(RUN, name)
    counts(f"dashboard, {name}: {done['count']} unit tests")
    assert not done["failures"], "\n".join(done["failures"])
    assert done["count"] > 5
