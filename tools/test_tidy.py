"""tools/tidy is first shown each kind of breach and must catch it, then what only looks like one and must let it be."""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
_loader = importlib.machinery.SourceFileLoader("tidy", os.path.join(HERE, "tidy"))
tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", _loader))
_loader.exec_module(tidy)

README = "- Purpose: a\n- May use: b\n- Start reading at: c\n"
LONG = "static int long_one(int a)\n{\n" + "    a++;\n" * 60 + "    return a;\n}\n"  # 64 lines


@pytest.fixture
def tree(tmp_path):
    """plant({path: text}) writes files, a README and a meson.build beside what lies in src/ and tests/, and returns the breaches."""
    def plant(files):
        for path, text in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
            readme, listing = file.parent / "README.md", file.parent / "meson.build"
            if path.startswith(("src/", "tests/")) and path.count("/") > 1 and not readme.exists():
                readme.write_text(README)
            if path.endswith(".c") and path.count("/") > 1 and "meson.build" not in "".join(files):
                with listing.open("a") as f:
                    f.write(f"'{file.name}'\n")
        return [f"{path}:{line}: {what}; {remedy}" for path, line, what, remedy in sorted(tidy.breaches(str(tmp_path)))]
    return plant


def test_a_sound_tree_is_let_be(tree):
    assert tree({
        "src/base/a.h": "#pragma once\n/* base/a.h - a thing. */\n#include <stdint.h>\n",
        "src/core/b.c": '#include "base/a.h"\n\n#include <assert.h>\n\nstatic int b(int x)\n{\n    assert(x == 1);\n    return x;\n}\n',
        "src/main.c": '#include "cli/x.h"\n#include "platform/y.h"\n#include <pthread.h>\n',
    }) == []


BREACHES = {
    "core_includes_adapter": ("src/core/a.c", '#include "store/sqlite/store_sqlite.h"\n', 1, "core includes store/sqlite/store_sqlite.h"),
    "base_includes_core": ("src/base/a.c", '\n#include "core/time/tz.h"\n', 2, "base includes core/time/tz.h"),
    "port_includes_node": ("src/port/a.c", '#include "node/worker/worker.h"\n', 1, "port includes node/worker/worker.h"),
    "node_includes_adapter": ("src/node/scheduler/a.c", '#include "store/sqlite/x.h"\n', 1, "node includes store/sqlite/x.h"),
    "api_includes_cli": ("src/api/server/a.c", '#include "cli/x.h"\n', 1, "api includes cli/x.h"),
    "adapter_includes_another": ("src/store/sqlite/a.c", '#include "store/postgres/x.h"\n', 1, "store/sqlite includes store/postgres/x.h"),
    "queue_includes_another_broker": ("src/queue/redis/a.c", '#include "broker/amqp/link.h"\n', 1, "queue/redis includes broker/amqp/link.h"),
    "framework_includes_command": ("src/cli/a.c", '#include "cli/command/add.h"\n', 1, "cli includes cli/command/add.h"),
    "src_includes_model": ("src/store/sqlite/a.c", '#include "model/store_memory.h"\n', 1, "names no layer"),
    "include_with_blanks": ("src/core/a.c", '  #  include  "node/x.h"\n', 1, "core includes node/x.h"),
    "include_without_layer": ("src/base/a.c", '#include "str.h"\n', 1, 'include "str.h" names no layer'),
    "include_upwards": ("src/base/a.c", '#include "../core/tz.h"\n', 1, "names no layer"),
    "unknown_layer": ("src/util/a.c", "int a;\n", 1, "'util' is no layer"),
    "clock_header_in_core": ("src/core/a.c", "#include <time.h>\n", 1, "<time.h> does not belong here"),
    "threads_in_base": ("src/base/a.c", "#include <pthread.h>\n", 1, "<pthread.h> does not belong here"),
    "threads_in_core": ("src/core/a.c", "#include <threads.h>\n", 1, "<threads.h> does not belong here"),
    "jansson_outside_its_door": ("src/api/server/a.c", "#include <jansson.h>\n", 1, "<jansson.h> does not belong here"),
    "jansson_in_another_base_file": ("src/base/a.c", "#include <jansson.h>\n", 1, "<jansson.h> does not belong here"),
    "sockets_in_core": ("src/core/a.c", "#include <sys/socket.h>\n", 1, "core includes <sys/socket.h>"),
    "unistd_in_base": ("src/base/a.c", "#include <unistd.h>\n", 1, "<unistd.h> does not belong here"),
    "client_library_in_node": ("src/node/a.c", "#include <sqlite3.h>\n", 1, "<sqlite3.h> does not belong here"),
    "openssl_outside_its_door": ("src/platform/a.c", "#include <openssl/evp.h>\n", 1, "<openssl/evp.h> does not belong here"),
    "signals_in_base": ("src/base/a.c", "#include <signal.h>\n", 1, "<signal.h> does not belong here"),
    "locale": ("src/cli/a.c", "#include <ctype.h>\n", 1, "<ctype.h> does not belong here"),
    "io_in_core": ("src/core/a.c", 'void a(void)\n{\n    fopen("x", "r");\n}\n', 3, "call of fopen"),
    "call_in_a_macro": ("src/core/a.c", "#define NOW() time(NULL)\n", 1, "call of time"),
    "call_after_a_string_with_a_quote": ("src/cli/a.c", 'int a = f("\\"", \'"\', strcpy(b, c));\n', 1, "call of strcpy"),
    "call_after_a_comment": ("src/cli/a.c", "/* x\n */ int a = atoi (b); // y\n", 2, "call of atoi"),
    "call_of_another_files_static": ("src/core/a.c", "static int received;\nint a = recv(b);\n", 2, "call of recv"),
    "clock_outside_its_adapter": ("src/store/sqlite/x.c", "int a = clock_gettime(b, c);\n", 1, "call of clock_gettime"),
    "log_in_adapter": ("src/store/sqlite/x.c", 'void a(void) { log_warn("x"); }\n', 1, "call of log_warn"),
    "unsafe_call_in_a_test": ("tests/unit/test_a.c", "int a = rand();\n", 1, "call of rand"),
    "assert_increments": ("src/core/a.c", "void a(int x)\n{\n    assert(x++ > 0);\n}\n", 3, "assert with a side effect"),
    "assert_assigns": ("src/core/a.c", "int a = assert((x = f(1)));\n", 1, "assert with a side effect"),
    "assert_adds": ("src/core/a.c", "int a = assert(f(1) && (x += 2));\n", 1, "assert with a side effect"),
    "assert_shifts": ("src/core/a.c", "int a = assert(x <<= 2);\n", 1, "assert with a side effect"),
    "assert_over_lines": ("src/core/a.c", "int a = assert(x &&\n    y--);\n", 1, "assert with a side effect"),
    "no_pragma_once": ("src/base/a.h", "/* base/a.h - a thing. */\nint a;\n", 1, "a header starts with #pragma once"),
    "no_opening_comment": ("src/base/a.h", "#pragma once\nint a;\n", 2, "no opening comment"),
    "opening_comment_of_another": ("src/base/a.h", "#pragma once\n/* base/b.h - b thing. */\n", 2, "no opening comment"),
    "test_header_without_comment": ("tests/support/a.h", "#pragma once\nint a;\n", 2, "no opening comment"),
    "long_function": ("src/core/a.c", "int x;\n\n" + LONG, 3, "long_one is 64 lines long, 50 are allowed"),
    "task_left_for_later": ("docs/a.md", "x\nTO" + "DO: y\n", 2, "' in the text"),
    "fix_left_for_later": ("src/core/a.c", "/* FIX" + "ME */\n", 1, "' in the text"),
    "mark_left_for_later": ("meson.build", "# XX" + "X\n", 1, "' in the text"),
    "path_of_a_machine": ("docs/a.md", "see /wor" + "k/shared/x\n", 1, "a path of one machine"),
    "path_of_a_home": ("run", "cd /hom" + "e/ann/x\n", 1, "a path of one machine"),
    "host_of_one_network": ("docs/a.md", "https://registr" + "y.example.com/x\n", 1, "a host of one network"),
    "build_time": ("src/cli/a.c", "const char *a = __DAT" + "E__;\n", 1, "a build must be reproducible"),
    "blanks_at_the_end": ("src/core/a.c", "int a;  \n", 1, "blanks at the end of a line"),
    "tab": ("src/core/a.c", "\tint a;\n", 1, "tab; use spaces"),
    "no_final_newline": ("src/core/a.c", "int a;\nint b;", 2, "no newline at the end of the file"),
    "carriage_return": ("src/core/a.c", "int a;\r\n", 1, "carriage return"),
    "long_file": ("src/core/a.c", "int a;\n" * 801, 801, "801 lines in a file, 800 are allowed"),
    "not_utf8": ("src/core/a.c", b"int a;\n/* \xff */\n", 2, "not UTF-8"),
}


@pytest.mark.parametrize("name", BREACHES)
def test_breach_is_caught(tree, name):
    path, text, line, part = BREACHES[name]
    found = tree({path: text})
    assert any(f.startswith(f"{path}:{line}: ") and part in f for f in found), found


NEAR_MISSES = {
    "in_a_comment": ("src/core/a.c", "/* strcpy(a, b); */\nint a; // time(NULL)\n"),
    "in_a_string": ("src/core/a.c", 'const char *a = "strcpy(a, b) // \\" time(NULL)";\n'),
    "in_a_continued_comment": ("src/core/a.c", "// x \\\n   time(NULL)\nint a;\n"),
    "include_in_a_comment": ("src/core/a.c", '/*\n#include "node/x.h"\n*/\n'),
    "verb_of_a_port": ("src/core/a.c", "int a = q->ops->read(q) + x.write(y);\n"),
    "vtable_member": ("src/port/a.c", "struct ops { int (*read)(int); };\n"),
    "longer_name": ("src/core/a.c", "int a = my_time(b) + time_of(c) + xmalloc(d);\n"),
    "own_static_of_that_name": ("src/core/a.c", "static bool accept(int c)\n{\n    return c;\n}\n\nint a = accept(b);\n"),
    "pure_assert": ("src/core/a.c", "int a = assert(x == 1 && y <= 2 && z >= 3 && w != 4 && !strcmp(a, \"=\"));\n"),
    "assert_on_a_literal": ("src/core/a.c", "int a = assert(same(x, (struct d){ .year = 1, .month = 2 }));\n"),
    "header_of_a_test": ("tests/support/a.h", "#pragma once\n/* tests/support/a.h - a thing. */\n"),
    "libc_as_an_oracle": ("tests/unit/test_a.c", "int a = gmtime_r(b, c) + atoi(d) + sscanf(e);\n"),
    "cmocka_assert": ("tests/unit/test_a.c", "int a = assert_int_equal(x++, 1);\n"),
    "fifty_lines": ("src/core/a.c", "static int a(void)\n{\n" + "    b();\n" * 47 + "}\n"),
    "long_table": ("src/core/a.c", "static const int a[] = {\n" + "    1,\n" * 100 + "};\n"),
    "long_test": ("tests/unit/test_a.c", LONG),
    "own_header_of_an_adapter": ("src/store/sqlite/claim.c", '#include "store/sqlite/store_sqlite.h"\n'),
    "common_header_of_adapters": ("src/store/sqlite/claim.c", '#include "store/common/slots.h"\n'),
    "command_includes_framework": ("src/cli/command/add.c", '#include "cli/cli.h"\n'),
    "jansson_behind_its_door": ("src/base/json/json_read.c", "#include <jansson.h>\n"),
    "io_in_an_adapter": ("src/platform/zoneinfo_system.c", "#include <fcntl.h>\nint a = open(b, c);\n"),
    "clock_in_its_adapter": ("src/platform/clock_system.c", "int a = clock_gettime(b, c);\n"),
    "temporary_name": ("tests/unit/test_a.c", 'char a[] = "/tmp/x-XXXXXX";\n'),
    "route_with_that_word": ("docs/a.md", "POST /v1/tasks/wor" + "k/x and src/wor" + "k/y\n"),
    "line_break_of_markdown": ("docs/a.md", "a  \nb\n"),
    "corpus": ("tests/fuzz/corpus/cron/tab.txt", "\t* * TO" + "DO"),
    "build_folder": ("build-x/a.c", "\tstrcpy(a, b);"),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_miss_is_let_be(tree, name):
    path, text = NEAR_MISSES[name]
    assert tree({path: text}) == []


CALL_NAMES = [(name, row) for row in tidy.CALLS for name in row[0].split()]


@pytest.mark.parametrize("name,row", CALL_NAMES, ids=[name for name, _ in CALL_NAMES])
def test_every_listed_call_is_caught_where_it_is_refused(tree, name, row):
    _, refused, excepted, remedy = row
    places = [p + "planted.c" if p.count("/") > 1 else p + {"src/": "cli", "tests/": "unit"}[p] + "/planted.c" for p in refused if p not in excepted]
    found = tree({p: f"int a = {name}(1);\n" for p in places})
    assert {f for f in found if f"call of {name}; {remedy}" in f} == {f"{p}:1: call of {name}; {remedy}" for p in places}
    for p in excepted:
        path = p if p.endswith(".c") else p + ("c" if p.endswith(".") else "x.c")
        found = tree({path: f"int a = {name}(1);\n"})
        assert not [f for f in found if f.startswith(path) and remedy in f]


def test_every_layer_is_held_to_its_row(tree):
    for layer, allowed in tidy.LAYERS.items():
        place = "src/main.c" if layer == "main.c" else f"src/{layer}/planted.c"
        for other in set(tidy.LAYERS) - {"main.c"}:
            found = [f for f in tree({place: f'#include "{other}/planted.h"\n'}) if f.startswith(place)]
            may = other == layer or any(other == used or other.startswith(used + "/") for used in allowed)
            assert bool(found) == (not may), (layer, other, found)


def test_folder_without_readme_is_caught(tree, tmp_path):
    tree({"src/core/a.c": "int a;\n", "tests/e2e/cli/test_a.py": "a = 1\n", "tests/unit/core/test_a.c": "int a;\n"})
    for folder in ("src/core", "tests/e2e/cli", "tests/unit/core"):
        (tmp_path / folder / "README.md").unlink()
    found = tree({"x.md": "x\n", "tests/unit/meson.build": "'a'\n"})
    assert [f.split("; ")[0] for f in found] == [f"{folder}/README.md:1: a folder without README.md" for folder in ("src/core", "tests/e2e/cli")]


def test_readme_of_another_shape_is_caught(tree):
    found = tree({"src/core/README.md": "# Core\n\nIt decides.\n", "src/core/a.c": "int a;\n"})
    assert "not the three lines" in found[0]


def test_readme_that_names_a_missing_file_is_caught(tree):
    text = README.replace("c\n", "`a.c`, then `gone.h`\n")
    found = tree({"src/core/README.md": text, "src/core/a.c": "int a;\n"})
    assert found == ["src/core/README.md:3: gone.h does not exist; name a file that does"]
    found = tree({"tests/e2e/README.md": README.replace("c\n", "`a.py`, then `cli/gone.py`\n"), "tests/e2e/a.py": "a = 1\n"})
    assert found[1:] == ["tests/e2e/README.md:3: cli/gone.py does not exist; name a file that does"]


def test_source_unknown_to_meson_is_caught(tree):
    found = tree({"src/core/a.c": "int a;\n", "src/core/b.c": "int b;\n", "src/core/meson.build": "files(\n  'a.c',\n)\n"})
    assert found == ["src/core/b.c:1: not in src/core/meson.build; add 'b.c' there"]


def test_test_unknown_to_meson_is_caught(tree):
    found = tree({"tests/unit/test_a.c": "int a;\n", "tests/unit/test_b.c": "int b;\n", "tests/unit/meson.build": "[\n  'b',\n]\n"})
    assert found == ["tests/unit/test_a.c:1: not in tests/unit/meson.build; add 'a' there"]
    found = tree({"tests/unit/core/time/test_c.c": "int c;\n", "src/core/time/meson.build": ""})
    assert "tests/unit/core/time/test_c.c:1: not in tests/unit/meson.build; add 'c' there" in found


def test_listed_function_may_stay_as_long_as_it_is(tree):
    assert tree({"src/core/a.c": LONG, tidy.FUNCTION_LIST: "src/core/a.c:long_one 64\n"}) == []


def test_listed_function_may_not_grow(tree):
    found = tree({"src/core/a.c": LONG, tidy.FUNCTION_LIST: "src/core/a.c:long_one 63\n"})
    assert found == ["src/core/a.c:1: long_one is 64 lines long, 63 are allowed; make it two, or a table"]


def test_ratchet_writes_lengths_downwards_only(tree, tmp_path):
    listed = "src/core/a.c:long_one 70\nsrc/core/a.c:gone 90\nsrc/core/b.c:long_one 60\n"
    files = {"src/core/a.c": LONG, "src/core/b.c": LONG, "src/core/c.c": LONG, tidy.FUNCTION_LIST: listed}
    found = tree(files)
    assert "tools/tidy-functions.txt:1: src/core/a.c:long_one has become shorter; run tools/tidy --ratchet" in found
    assert "tools/tidy-functions.txt:2: src/core/a.c:gone has become shorter; run tools/tidy --ratchet" in found
    assert tidy.main(["--ratchet", str(tmp_path)]) == 0
    rows = (tmp_path / tidy.FUNCTION_LIST).read_text().splitlines()
    assert [r for r in rows if not r.startswith("#")] == ["src/core/a.c:long_one 64", "src/core/b.c:long_one 60"]


def test_functions_are_found_with_their_names_and_lengths():
    src = tidy.Source("src/core/a.c", """\
static int one(void)
{
    return 1;
}

__attribute__((format(printf, 1, 2)))
static struct verdict *two(const char *fmt,
                           ...)
{
    if (x) {
    }
}
struct s {
    int a;
};
const char *three(int (*f)(int))
{
    /* }
{ */
}
""")
    assert list(tidy.functions_of(src)) == [("one", 1, 4), ("two", 6, 7), ("three", 16, 5)]


def test_command_prints_breaches_and_fails(tmp_path):
    (tmp_path / "a.md").write_text("a\tb\n")
    ran = subprocess.run([os.path.join(HERE, "tidy"), str(tmp_path)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "a.md:1: tab; use spaces\n")
    (tmp_path / "a.md").write_text("a b\n")
    ran = subprocess.run([os.path.join(HERE, "tidy"), str(tmp_path)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert subprocess.run([os.path.join(HERE, "tidy"), "--nonsense"], capture_output=True, check=False).returncode == 2


def function(name, static="static "):
    return f"{static}int {name}(int a)\n{{\n    return a;\n}}\n"


def test_functions_that_share_a_name_are_caught_above_the_limit(tree):
    many = "".join(function(f"core_one_{i}") for i in range(38))
    assert tree({"src/core/a.c": many + function("add"), "src/core/b.c": function("add")}) == []  # 2 of 40 are 5 %
    found = tree({"src/core/c.c": function("add")})
    assert found == ["src/core/c.c:1: 3 functions are called add; 3 of 41 share a name; put the module's name before it"]


def test_a_function_that_only_tests_call_is_caught(tree):
    uncalled = {"src/core/a.c": function("core_one", static=""), "tests/unit/core/test_a.c": "int x(void)\n{\n    return core_one(1);\n}\n"}
    assert "src/core/a.c:1: nothing in src/ calls core_one; remove it, or move it to the tests that need it" in tree(uncalled)
    inline = {"src/core/b.h": "#pragma once\n/* core/b.h - b. */\n" + function("core_two", static="static inline ")}
    assert [x for x in tree(inline) if "core_two" in x]
    for call in ("    core_one(core_two(1));\n", "    X(one), X(two),\n#define X(name) core_##name\n"):
        assert not [x for x in tree({**uncalled, **inline, "src/core/c.c": "static void go(void)\n{\n" + call + "}\n"}) if "calls core" in x]


def test_a_completion_without_its_module_is_caught(tree):
    text = function("finished") + "static struct op op = { .done = finished };\n"
    assert "finished is called back; name it <module>_on_<event>" in tree({"src/core/a.c": text})[0]
    assert tree({"src/core/a.c": text.replace("finished", "spawner_on_finished")}) == []


def test_a_crowded_folder_is_caught(tree):
    files = {f"src/core/f{i}.c": "int a;\n" for i in range(tidy.FOLDER_FILES_MAX + 1)}
    assert tree(files) == [f"src/core/README.md:1: {len(files)} files, {tidy.FOLDER_FILES_MAX} are allowed; make it two folders"]


def test_a_crowded_folder_of_tests_is_caught(tree):
    files = {f"tests/e2e/f{i}.py": "a = 1\n" for i in range(tidy.FOLDER_FILES_MAX + 1)}
    assert tree(files) == [f"tests/e2e/README.md:1: {len(files)} files, {tidy.FOLDER_FILES_MAX} are allowed; make it two folders"]


def test_unit_tests_stand_in_folders_of_src(tree):
    found = tree({"src/core/time/a.c": "int a;\n", "tests/unit/core/time/test_a.c": "int a;\n", "tests/unit/core/test_b.c": "int b;\n",
                  "tests/unit/core/tz/test_c.c": "int c;\n", "src/core/b.c": "int b;\n", "tests/unit/meson.build": "'a', 'b', 'c'\n"})
    assert [f for f in found if "stands for" in f] == \
        ["tests/unit/core/tz/test_c.c:1: tests/unit/core/tz stands for no folder of src/; put it where its module is in src/"]


def test_a_wide_comment_is_caught_and_a_wide_string_is_not(tree):
    assert "wrap the comment" in tree({"src/core/a.c": "/* " + "x" * 120 + " */\n"})[0]
    assert tree({"src/core/a.c": 'const char *a = "' + "x" * 120 + '";\n'}) == []


def test_a_test_that_is_not_there_is_not_cited(tree):
    text = "/* tests/e2e/test_gone.py and tests/unit/core/test_a.c show it */\n"
    found = tree({"src/core/a.c": text, "tests/unit/core/test_a.c": "int a;\n", "tests/unit/meson.build": "'a'\n"})
    assert "src/core/a.c:1: tests/e2e/test_gone.py does not exist; cite one that does" in found
    assert not [f for f in found if "test_a.c does not exist" in f]


def test_a_page_that_is_not_there_is_not_cited(tree):
    text = "/* see docs/decisions/0001-gone.md */\n"
    assert "docs/decisions/0001-gone.md does not exist" in tree({"src/core/a.c": text})[0]
    assert tree({"docs/decisions/0001-gone.md": "x\n", "src/core/a.c": text}) == []
