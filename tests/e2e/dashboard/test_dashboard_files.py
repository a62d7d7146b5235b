"""The dashboard's files, without a browser: types, sizes, and what no module may do."""

import gzip
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

FOLDER = ROOT / "src/dashboard"
SERVED = sorted(path for path in FOLDER.rglob("*") if path.suffix in (".html", ".js", ".css", ".svg"))
BYTES_MAX, LINES_MAX, FIRST_MODULES_MAX = 150 * 1024, 400, 25
IMPORT = re.compile(r"^(?:import|export) .*?from '(\.[^']+)';", re.M)


def imports(path):
    """Modules that a module imports, and those that they import, without the dynamic ones."""
    found, todo = set(), [path]
    while todo:
        module = todo.pop().resolve()
        if module not in found:
            found.add(module)
            todo += [module.parent / name for name in IMPORT.findall(module.read_text(encoding="utf-8"))]
    return found


def test_types_are_checked():
    if not shutil.which("tsc"):
        pytest.skip("tsc: Debian's package node-typescript is not installed")
    done = subprocess.run(["tsc", "-p", FOLDER / "tsconfig.json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


def test_files_are_short_and_the_whole_is_small(counts):
    long = [path.name for path in SERVED if path.read_text(encoding="utf-8").count("\n") > LINES_MAX]
    total = sum(len(gzip.compress(path.read_bytes(), 9)) for path in SERVED)
    counts(f"dashboard: {len(SERVED)} files, {total / 1024:.0f} KiB gzipped")
    assert not long and total <= BYTES_MAX


def test_first_modules_are_few_and_preloaded():
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    preloaded = {(FOLDER / name).resolve() for name in re.findall(r'rel="modulepreload" href="/ui/\{hash\}/([^"]+)"', text)}
    first = imports(FOLDER / "main.js") | imports(FOLDER / "page/overview.js")
    assert len(first) <= FIRST_MODULES_MAX
    assert preloaded == first - {(FOLDER / "main.js").resolve()}


def test_every_imported_file_exists():
    for path in SERVED:
        if path.suffix == ".js":
            for name in re.findall(r"(?:from|import\() ?'(\.[^']+)'", path.read_text(encoding="utf-8")):
                assert (path.parent / name).resolve() in SERVED, f"{path.name} imports {name}"


@pytest.mark.parametrize("word", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setTimeout('", "srcdoc ="])
def test_no_text_becomes_markup_or_code(word):
    assert not [path.name for path in SERVED if word in path.read_text(encoding="utf-8")]


def test_no_inline_style_or_script():
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\bsrc=)", text)


def test_keys_are_offered_the_scopes_that_the_server_knows():
    known = re.findall(r'^    X\([A-Z_]+, "([a-z:-]+)"\)', (ROOT / "src/api/auth/scopes.h").read_text(encoding="utf-8"), re.M)
    offered = re.findall(r"^    \['([a-z:-]+)', ", (FOLDER / "view/scopes.js").read_text(encoding="utf-8"), re.M)
    assert known and sorted(known) == sorted(offered)
