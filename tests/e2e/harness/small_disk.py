"""A file system of a few megabytes of our own, to be filled. It takes root."""

import os
import subprocess

import pytest

SIZE = "6m"


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("disk-full: mounting a small file system takes root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"disk-full: no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place):
    """Takes all space that is left, down to the last byte."""
    chunk = 1 << 20
    with open(place / "ballast", "ab", buffering=0) as f:
        while chunk:
            try:
                if f.write(b"\0" * chunk) < chunk:
                    chunk //= 2
            except OSError:
                chunk //= 2
