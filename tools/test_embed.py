"""tools/embed, seen by the C compiler: what comes out is what went in."""
import gzip
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EMBED = os.path.join(ROOT, "tools", "embed")

SHOW = """
#include <stdio.h>
#include "base/embed.h"
extern const struct embedded_file texts[];
extern const size_t texts_count;
int main(void)
{
    for (size_t i = 0; i < texts_count; i++) {
        printf("%s %zu %d:", texts[i].name, texts[i].text.n, texts[i].text.p[texts[i].text.n]);
        fwrite(texts[i].text.p, 1, texts[i].text.n, stdout);
    }
}
"""


def test_files_come_out_as_they_went_in_sorted_by_name(tmp_path):
    (tmp_path / "b.sql").write_bytes(bytes(range(256)))
    (tmp_path / "a.sql").write_bytes(b"")
    (tmp_path / "show.c").write_text(SHOW)
    subprocess.run([EMBED, tmp_path / "out.c", "texts", tmp_path / "b.sql", tmp_path / "a.sql"], check=True)
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "src"), tmp_path / "out.c", tmp_path / "show.c",
                    "-o", tmp_path / "show"], check=True)
    out = subprocess.run([tmp_path / "show"], check=True, capture_output=True).stdout
    assert out == b"a.sql 0 0:b.sql 256 0:" + bytes(range(256))


def test_wrong_arguments_are_refused(tmp_path):
    for arguments in ([], [tmp_path / "out.c", "not a name", "x"]):
        ran = subprocess.run([EMBED, *arguments], check=False, capture_output=True, text=True)
        assert ran.returncode == 2 and ran.stderr.startswith("usage:")


SHOW_SITE = """
#include <stdio.h>
#include "base/embed.h"
extern const struct embedded_asset site[];
extern const size_t site_count;
extern const char site_hash[];
int main(void)
{
    printf("%s\\n", site_hash);
    for (size_t i = 0; i < site_count; i++) {
        printf("%s|%s|%s|%zu|", site[i].path, site[i].type, site[i].etag, site[i].bytes);
        for (size_t k = 0; k < site[i].gzip.n; k++)
            printf("%02x", (unsigned char)site[i].gzip.p[k]);
        printf("\\n");
    }
}
"""


def site(tmp_path, name="out"):
    """(hash, {path: (type, etag, content)}) of tmp_path/pages as the C compiler sees it."""
    (tmp_path / "show.c").write_text(SHOW_SITE)
    subprocess.run([EMBED, "--site", tmp_path / f"{name}.d", tmp_path / f"{name}.c", "site", tmp_path / "pages"], check=True)
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "src"), tmp_path / f"{name}.c", tmp_path / "show.c",
                    "-o", tmp_path / "show"], check=True)
    whole, *lines = subprocess.run([tmp_path / "show"], check=True, capture_output=True, text=True).stdout.splitlines()
    found = {}
    for path, kind, etag, size, packed in (line.split("|") for line in lines):
        data = gzip.decompress(bytes.fromhex(packed))
        assert len(data) == int(size)
        found[path] = (kind, etag, data)
    return whole, found


def test_a_site_has_what_browsers_load_and_a_hash_that_changes_with_it(tmp_path):
    pages = tmp_path / "pages"
    (pages / "lib").mkdir(parents=True)
    (pages / "index.html").write_text('<script src="/ui/{hash}/lib/a.js"></script>')
    (pages / "lib/a.js").write_text("const hash = '{hash}';")
    (pages / "README.md").write_text("not for browsers")
    whole, found = site(tmp_path)
    assert list(found) == ["index.html", "lib/a.js"]
    assert found["index.html"][2].decode() == f'<script src="/ui/{whole}/lib/a.js"></script>'
    assert found["lib/a.js"][0] == "text/javascript; charset=utf-8" and found["lib/a.js"][2] == b"const hash = '{hash}';"
    depends = (tmp_path / "out.d").read_text()
    assert str(pages / "lib/a.js") in depends and f"{pages} " in depends  # a new file changes its folder
    assert site(tmp_path, "again") == (whole, found)
    (pages / "lib/a.js").write_text("const hash = 1;")
    changed, other = site(tmp_path)
    assert changed != whole and other["lib/a.js"][1] != found["lib/a.js"][1] and other["index.html"][1] != found["index.html"][1]
