"""tools/embed, seen by the C compiler: what comes out is what went in."""
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
