"""The command line around the commands: help, version, completion, exit codes; and the README, followed to the letter."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, TIMEOUT_S
from server import until

SHOWN = ["serve", "worker", "add", "list", "show", "edit", "pause", "resume", "cancel", "rm", "run", "retry", "history",
         "upcoming", "explain", "deps", "dlq", "workflow", "job", "queue", "breakers", "notify", "calendar", "tenant", "key", "audit", "secrets", "signing-keys", "verify", "node", "workers", "status", "top", "dashboard", "alerts", "watch", "import", "next", "sink", "bench",
         "backup", "restore", "copy", "migrate", "check-config", "tls", "version", "help", "completion"]
COMMON = ["--json", "--server", "--key", "--ca", "--cert", "--cert-key", "--data-dir", "--help"]  # __complete answers scripts and is not shown


# ---- help ----


def test_alone_it_says_how_it_is_used_and_fails(belfry):
    done = belfry()
    assert (done.code, done.out) == (2, "")
    assert done.err == belfry("--help").out


@pytest.mark.parametrize("args", [("--help",), ("-h",), ("help",), ("--help", "ignored")])
def test_help_lists_every_command(belfry, args):
    done = belfry(*args)
    assert (done.code, done.err) == (0, "")
    assert re.findall(r"^  (\S+) +\S", done.out, re.M) == SHOWN
    assert "Usage: belfry COMMAND [OPTION…] [ARGUMENT…]\n" in done.out
    assert "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 server unreachable.\n" in done.out


@pytest.mark.parametrize("command", SHOWN)
def test_every_command_explains_itself_in_three_ways(belfry, command):
    done = belfry(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"belfry {command} - ")
    assert f"\nUsage: belfry {command} [OPTION…]" in done.out
    assert re.search(r"^ +--json +print JSON", done.out, re.M)
    assert re.search(r"^ +-h, --help +print this and exit$", done.out, re.M)
    assert belfry("help", command) == done
    assert belfry(command, "-h") == done
    assert not [line for line in done.lines if len(line) > 130], "lines are for a terminal"


def test_help_of_next_names_each_option_and_its_examples_work(belfry, build):
    text = belfry("next", "--help").out
    assert re.findall(r"^ +(?:-\w, )?--([a-z-]+)", text, re.M) == [
        "tz", "from", "to", "count", "dst-gap", "dst-overlap", "every", "calendar", "calendar-policy", "no-weekends", "start", "end", "spread", "id", "skips", "json",
        "server", "key", "ca", "cert", "cert-key", "data-dir", "help"]
    assert "(default 5, 1 to 100000)" in text
    examples = re.findall(r"^  belfry (next .*)$", text, re.M)
    assert len(examples) >= 4
    for example in examples:
        done = subprocess.run(["bash", "-c", '"$0" ' + example, build / "belfry"], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0 and done.stdout and not done.stderr, (example, done)


def test_help_wins_over_missing_words_but_not_over_mistakes(belfry):
    assert belfry("next", "--help", "60 * * * *").code == 0
    assert belfry("next", "--hlep").code == 2


@pytest.mark.parametrize("command", ["cancel", "pause", "resume", "run", "retry", "rm"])
def test_help_of_actions_names_every_filter(belfry, command):
    names = re.findall(r"([a-z-]+)=", belfry(command, "--filter", "nothing=1").err.partition("use ")[2])
    told = re.search(r"Names: (.*?)\. Or", belfry(command, "--help").out, re.S)[1]
    assert len(names) == 9 and sorted(names) == sorted(re.sub(r"\(.*?\)", "", told, flags=re.S).replace(",", " ").split())


# ---- what is no command ----


@pytest.mark.parametrize("args, sentence", [
    (["nxt"], "belfry: there is no command 'nxt'; did you mean 'next'?\n"),
    (["NEXT"], "belfry: there is no command 'NEXT'; did you mean 'next'?\n"),
    (["versoin", "--json"], "belfry: there is no command 'versoin'; did you mean 'version'?\n"),
    (["complete"], "belfry: there is no command 'complete'; did you mean 'completion'?\n"),
    (["frobnicate"], "belfry: there is no command 'frobnicate'; 'belfry --help' lists them\n"),
    (["help", "nxt"], "belfry: there is no command 'nxt'; did you mean 'next'?\n"),
    (["help", "frobnicate"], "belfry: there is no command 'frobnicate'; 'belfry --help' lists them\n"),
    ([""], "belfry: there is no command ''; 'belfry --help' lists them\n"),
    (["--json"], "belfry: there is no command '--json'; 'belfry --help' lists them\n"),
    (["a\x1b[31mb"], "belfry: there is no command 'a?[31mb'; 'belfry --help' lists them\n"),
    ([b"\xff\xfe"], "belfry: there is no command '??'; 'belfry --help' lists them\n"),
    (["version", "1.0"], "belfry version: takes no arguments, but got '1.0'\nTry 'belfry version --help'.\n"),
    (["add", "--timezone", "x"], "belfry add: --timezone is not an option\nTry 'belfry add --help'.\n"),
    (["add", "--retries", "3"], "belfry add: --retries is not an option\nTry 'belfry add --help'.\n"),
    (["add", "-Z"], "belfry add: -Z is not an option\nTry 'belfry add --help'.\n"),
    (["list", "--stauts", "x"], "belfry list: --stauts is not an option, did you mean --status?\nTry 'belfry list --help'.\n"),
    (["version", "--jsno"],
     "belfry version: --jsno is not an option, did you mean --json?\nTry 'belfry version --help'.\n"),
    (["completion"], "belfry completion: give one shell: bash, zsh or fish\n"),
    (["completion", "tcsh"], "belfry completion: give one shell: bash, zsh or fish\n"),
    (["completion", "bash", "zsh"], "belfry completion: give one shell: bash, zsh or fish\n"),
])
def test_wrong_usage_exits_2_with_a_sentence(belfry, args, sentence):
    done = belfry(*args)
    assert (done.code, done.out, done.err) == (2, "", sentence)


def test_an_overlong_command_is_cut(belfry):
    done = belfry("x" * 100_000)
    assert done.code == 2 and len(done.err) < 200 and "x…'" in done.err


# ---- version ----


def meson_version():
    return re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)


def test_version_is_that_of_the_build(belfry):
    assert belfry("version").out == f"belfry {meson_version()}\n"
    assert belfry("--version").out == f"belfry {meson_version()}\n"
    for args in (("version", "--json"), ("--version", "--json")):
        done = belfry(*args)
        assert done.out.count("\n") == 1
        told = json.loads(done.out)
        assert told["version"] == meson_version() and told["compiler"]


@pytest.mark.parametrize("args", [("--help",), ("help",), ("help", "next"), ("version",), ("version", "--json"),
                                  ("completion", "bash"), ("__complete", "--", "")])
def test_lost_output_is_a_failure(build, args):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([build / "belfry", *args], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"belfry \w+: cannot write the output: No space left on device\n", done.stderr)


@pytest.mark.parametrize("args", ["version", "next --json '* * * * *'"])
def test_output_that_is_closed_is_a_failure(build, args):
    done = subprocess.run(["sh", "-c", f"exec '{build}/belfry' {args} >&-"], stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1 and "cannot write the output" in done.stderr, done


def catches(pid, number):
    """Whether a process has a handler for a signal; before it has one, the signal ends it at once."""
    caught = re.search(r"^SigCgt:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.M)
    return int(caught[1], 16) >> (number - 1) & 1


def test_no_file_gets_the_number_of_a_closed_one(build, tmp_path):
    """What a server writes for people went into its store, or into a connection."""
    with subprocess.Popen(["sh", "-c", f"exec '{build}/belfry' serve --listen 127.0.0.1:0 --data-dir '{tmp_path}/data' <&- >&- 2>&-"]) as server:
        try:
            until(lambda: (tmp_path / "data/admin.key").exists() and catches(server.pid, signal.SIGTERM))
            assert {os.readlink(f"/proc/{server.pid}/fd/{number}") for number in range(3)} == {"/dev/null"}
        finally:
            server.terminate()
    assert server.returncode == 0


# ---- completion ----


@pytest.fixture(scope="session")
def complete(belfry):
    """The candidates for the last of the words, as the binary has them."""
    def ask(*words):
        done = belfry("__complete", "--", *words)
        assert (done.code, done.err) == (0, "")
        return [line.split("\t")[0] for line in done.lines]
    return ask


def test_commands_are_completed(complete, belfry):
    assert complete("") == SHOWN
    assert complete() == SHOWN
    assert complete("ne") == ["next"]
    assert complete("xyz") == []
    assert complete("help", "") == [*COMMON, *SHOWN]
    assert complete("help", "vers") == ["version"]
    assert belfry("__complete", "--", "vers").out == "version\tprint the version\n"


def test_options_are_completed(complete):
    assert complete("next", "--ds") == ["--dst-gap", "--dst-overlap"]
    assert complete("next", "--tz", "UTC", "--s") == ["--start", "--spread", "--skips", "--server"]
    assert complete("version", "--") == COMMON
    assert complete("frobnicate", "--") == []


def test_choices_are_completed(complete):
    assert complete("next", "--dst-gap", "") == ["shift", "skip"]
    assert complete("next", "0 8 * * *", "--dst-overlap", "l") == ["last"]
    assert complete("completion", "z") == ["zsh"]
    assert complete("next", "--count", "") == []  # any number


def test_zones_are_completed(complete):
    assert complete("next", "--tz", "Europe/Ber") == ["Europe/Berlin"]
    assert "Australia/Lord_Howe" in complete("next", "--tz", "Aus")
    everything = complete("next", "--tz", "")
    assert len(everything) > 400 and everything == sorted(set(everything))
    assert {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"} <= set(everything)
    assert complete("next", "--tz", "../") == []


BASH = r"""
eval "$(belfry completion bash)"
COMP_WORDS=(belfry "$@") COMP_CWORD=$#
[[ $(complete -p belfry) == "complete -o default -F _belfry belfry" ]] || exit 9
_belfry
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("words, candidates", [
    ([""], SHOWN), (["ne"], ["next"]), (["next", "--dst-g"], ["--dst-gap"]),
    (["next", "--dst-overlap", ""], ["first", "last", "both"]),
    (["next", "0 8 * * *", "--tz", "Asia/Kathm"], ["Asia/Kathmandu"]),
    (["completion", "f"], ["fish"]), (["next", "xyz"], []),
])
def test_bash_is_told(build, words, candidates, tmp_path):
    (tmp_path / "file").write_text("bait for globs")
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", *words], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PATH": f"{build}:{os.environ['PATH']}"}, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[:-1] == (candidates or [""])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_sound(belfry, shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(belfry("completion", shell).out)
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
