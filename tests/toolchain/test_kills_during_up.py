"""`symphony up` while the API server is killed repeatedly."""

import json
import sys
from pathlib import Path

import pytest

from tests.toolchain.network_namespace import Elsewhere

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(400)]


@pytest.mark.parametrize(
    "kills", [2, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])], ids=str
)
def test_the_state_stays_complete_when_the_api_server_is_killed_during_up(
    elsewhere: Elsewhere, folder: Path, kills: int
):
    """The state has everything that runs, the next `up` completes it, `delete` leaves nothing."""
    script = ("-m", "tests.toolchain.kill_during_up", str(folder), str(kills))
    content = json.loads(elsewhere.run(sys.executable, *script, timeout=60 + 80 * kills))
    assert len(content["ends"]) == kills, content
    assert content["dropped"] == [], content
    assert content["equal"], content
    assert content["running"], content
    assert content["objects"] >= 20, content
    assert content["left"] == [], content
