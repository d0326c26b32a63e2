"""The programs of examples/zmq, run by hand as their README says."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "zmq"
PAIRS = {
    "push_pull.py": {"pull": "pulled 10, steps add up to 45", "push": "pushed 10"},
    "request_reply.py": {"server": "served", "client": "6 / 0: ZeroDivisionError: division by zero"},
    "acknowledged.py": {"receiver": "received 1000, in order: True", "sender": "all acknowledged: True"},
    "publish_subscribe.py": {"publisher": "published 10", "subscriber": "missed 0"},
    "proxy.py": {"proxy": "forwarded", "server": "served", "client": "THROUGH THE PROXY"},
    "data_fetcher.py": {"server": "served", "fetcher": "fetched 8, 7340032 in all"},
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("program", PAIRS)
def test_both_ends_run_and_end(program):
    ends = {
        end: subprocess.Popen(
            [sys.executable, str(FOLDER / program), end],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for end in PAIRS[program]
    }
    try:
        for end, process in ends.items():
            output, errors = process.communicate(timeout=40)
            assert process.returncode == 0, errors
            assert PAIRS[program][end] in output
            assert errors == ""
    finally:
        for process in ends.values():
            process.kill()
            process.wait()
