"""belfry sink as a user starts it: the address on stdout, one JSON line a call, an end on SIGTERM."""
import http.client
import json
import os
import pathlib
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BELFRY = pathlib.Path(os.environ.get("BELFRY_BUILD", ROOT / "build")) / "belfry"


def start(*arguments):
    process = subprocess.Popen([BELFRY, "sink", "--listen", "127.0.0.1:0", *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    return process, http.client.HTTPConnection(address[len("http://"):], timeout=10)


def call(connection, method, path, body=None, headers=None):
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def stop(process):
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    return process.returncode, err


def test_calls_are_logged_as_json_lines(tmp_path):
    log = tmp_path / "calls.jsonl"
    process, connection = start("--log", str(log))
    assert call(connection, "POST", "/a", b'{"n": 1}', {"webhook-id": "w1", "Belfry-Attempt": "2"}) == 200
    assert call(connection, "GET", "/status/503") == 503
    assert stop(process) == (0, "belfry sink: answered 2 calls\n")
    first, second = [json.loads(line) for line in log.read_text().splitlines()]
    assert (first["method"], first["path"], first["webhook_id"], first["attempt"], first["body"], first["status"]) == (
        "POST", "/a", "w1", 2, '{"n": 1}', 200)
    assert second["status"] == 503 and second["attempt"] is None
    assert second["received_us"] >= first["received_us"]


def test_options_decide_the_answer():
    process, connection = start("--status", "202", "--fail-first", "1", "--delay", "20ms")
    assert [call(connection, "POST", "/", b"", {"webhook-id": "w"}) for _ in range(2)] == [500, 202]
    assert stop(process)[0] == 0


def test_each_call_is_printed_at_once_also_into_a_pipe():
    process, connection = start("--headers")
    assert call(connection, "POST", "/a", b"hello", {"Authorization": "Bearer s3cret", "X-A": "1"}) == 200
    lines = [process.stdout.readline() for _ in range(2)]
    assert lines[0].startswith("200  POST /a") and "hello" in lines[0]
    while "X-A" not in lines[-1]:
        lines.append(process.stdout.readline())
    assert "     Authorization: Bearer s3cret\n" in lines and "     X-A: 1\n" in lines
    assert stop(process)[0] == 0


def test_the_log_has_the_headers_if_they_are_asked_for(tmp_path):
    process, connection = start("--log", str(tmp_path / "log"), "--headers")
    assert call(connection, "POST", "/a", b"", {"X-A": "1"}) == 200
    assert stop(process)[0] == 0
    assert "X-A: 1" in json.loads((tmp_path / "log").read_text())["headers"]


def test_quiet_prints_no_call():
    process, connection = start("--quiet")
    assert call(connection, "POST", "/a") == 200
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10)[0] == ""


def test_wrong_usage_says_what_is_wrong(tmp_path):
    for arguments, says in ((["--listen", "nowhere"], "--listen must be an address and a port"),
                            (["--log", str(tmp_path / "no" / "folder")], "--log cannot be opened"),
                            (["--status", "99"], "--status")):
        done = subprocess.run([BELFRY, "sink", *arguments], capture_output=True, text=True, timeout=10)
        assert done.returncode == 2 and says in done.stderr
