"""The scripts behind ./run and ./test, as far as they can be seen without changing the machine."""
import os
import subprocess

SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts")


def run(*arguments, **environment):
    return subprocess.run([os.path.join(SCRIPTS, arguments[0]), *arguments[1:]], capture_output=True, text=True, check=False,
                          env={**os.environ, "BELFRY_SKIP_DEPS": "", **environment})


def bare_machine(tmp_path):
    """A dpkg that knows of no package."""
    (tmp_path / "updates").mkdir()
    (tmp_path / "status").touch()
    return {"DPKG_ADMINDIR": str(tmp_path)}


def test_install_deps_says_what_a_bare_machine_lacks(tmp_path):
    ran = run("install-deps", "run", "--dry-run", **bare_machine(tmp_path))
    assert ran.returncode == 0
    text = open(os.path.join(SCRIPTS, "install-deps"), encoding="utf-8").read()
    rows = text.split("run_packages=(\n")[1].split("\n)")[0].splitlines()
    packages = [row.split()[0] for row in rows]
    assert {"gcc", "meson", "libcurl4-openssl-dev", "libjansson-dev"} <= set(packages)
    assert ran.stdout == f"would install: {' '.join(packages)}\n"


def test_install_deps_names_each_package_once_and_in_order(tmp_path):
    words = run("install-deps", "run", "--dry-run", **bare_machine(tmp_path)).stdout.split()[2:]
    assert words == sorted(set(words))


def test_install_deps_of_test_adds_to_those_of_run(tmp_path):
    words = run("install-deps", "test", "--dry-run", **bare_machine(tmp_path)).stdout.split()
    assert {"gcc", "tzdata", "clang-tidy", "libcmocka-dev", "gcovr", "python3-pytest"} <= set(words)


def test_install_deps_names_only_servers_that_it_installs():
    text = open(os.path.join(SCRIPTS, "install-deps"), encoding="utf-8").read()
    servers = text.split("servers=(")[1].split(")")[0].split()
    packages = text.split("test_packages=(")[1].split("\n)")[0]
    assert "prometheus" in servers and all(f"\n    {s} " in packages for s in servers)


def test_install_deps_is_silent_when_told_to_step_aside(tmp_path):
    ran = run("install-deps", "test", **{**bare_machine(tmp_path), "BELFRY_SKIP_DEPS": "1"})
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_install_deps_refuses_an_unknown_set():
    ran = run("install-deps", "everything")
    assert ran.returncode == 2 and ran.stderr.startswith("usage:")


def test_results_of_junit_are_told_apart(tmp_path):
    (tmp_path / "x.xml").write_text("""<testsuites><testsuite name="pytest">
        <testcase name="a"/><testcase name="b"><failure>no</failure></testcase><testcase name="c"><error/></testcase>
        <testcase name="d"><skipped message="no redis here"/></testcase></testsuite></testsuites>""")
    ran = run("test-results", "junit", str(tmp_path / "x.xml"))
    assert ran.stdout == "passed\ta\nfailed\tb\nfailed\tc\nskipped\td: no redis here\n"


def test_program_that_dies_after_its_last_test_is_counted_as_failed(tmp_path):
    (tmp_path / "testlog.junit.xml").write_text("""<testsuites><testsuite name="belfry.leaky"><testcase name="1 - a"/></testsuite>
        <testsuite name="belfry.wrong"><testcase name="1 - b"><failure/></testcase></testsuite>
        <testsuite name="belfry"><testcase name="plain"/></testsuite></testsuites>""")
    (tmp_path / "testlog.json").write_text("""{"name": "leaky", "result": "ERROR", "returncode": 1}
{"name": "wrong", "result": "FAIL", "returncode": 1}
{"name": "plain", "result": "OK", "returncode": 0}
""")
    ran = run("test-results", "meson", str(tmp_path))
    assert ran.stdout.splitlines() == ["passed\tleaky: 1 - a", "failed\twrong: 1 - b", "passed\tplain: plain",
                                       "failed\tleaky: the program, error, status 1"]
