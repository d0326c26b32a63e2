"""The names of the original in their old modules: importing them is cheap."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from symphony import Cluster

HOMES = {
    "symphony": "Cluster KubeCluster TmuxCluster SymphonyConfig SymphonyParser AddressBook GKEDispatcher"
    " DockerBuilder clean_images",
    "symphony.engine": "Cluster SymphonyConfig AddressBook",
    "symphony.kube": "KubeCluster GKEDispatcher",
    "symphony.tmux": "TmuxCluster",
    "symphony.commandline": "SymphonyParser",
    "symphony.addons": "DockerBuilder clean_images",
}
HEAVY = "kubernetes pulumi_kubernetes pulumi_gcp docker libtmux textual"


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_classic_names_are_imported_from_their_old_modules_without_a_heavy_package() -> None:
    imports = "\n".join(f"from {home} import {', '.join(names.split())}" for home, names in HOMES.items())
    loaded = f"print([each for each in {HEAVY.split()} if each in sys.modules])"
    assert python(f"import sys\n{imports}\n{loaded}") == "[]\n"


def test_an_unknown_name_is_an_import_error() -> None:
    for home in HOMES:
        with pytest.raises(ImportError, match="cannot import name 'Nix'"):
            exec(f"from {home} import Nix")


STARS = """
from symphony import *
from symphony.engine import *
from symphony.kube import *
from symphony.tmux import *
from symphony.addons import *
from symphony.commandline import *
import symphony
assert Cluster and SymphonyConfig and AddressBook and KubeCluster and TmuxCluster and SymphonyParser
for spec in (ExperimentSpec, KubeExperimentSpec, TmuxExperimentSpec):
    assert issubclass(spec, symphony.Experiment)
for spec in (ProcessGroupSpec, KubeProcessGroupSpec, TmuxProcessGroupSpec):
    assert issubclass(spec, symphony.ProcessGroup)
for spec in (ProcessSpec, KubeProcessSpec, TmuxProcessSpec):
    assert issubclass(spec, symphony.Process)
from symphony.errors import ResourceExistsError
assert issubclass(ResourceExistsError, symphony.UserError) and issubclass(symphony.UserError, ValueError)
"""


def test_star_imports_give_all_original_names() -> None:
    assert python(STARS) == ""


def test_importing_symphony_loads_no_submodule_and_every_name_in_dir_exists() -> None:
    submodules = "[each for each in sys.modules if each.startswith('symphony.')]"
    names = "for name in dir(symphony): getattr(symphony, name)"
    assert python(f"import sys, symphony\nprint({submodules})\n{names}") == "[]\n"


def test_address_book_dumps_service_variables() -> None:
    from symphony import AddressBook

    assert AddressBook({"a": {"host": "h", "port": 1}}).dump()["SYMPH_A_ADDR"] == "h:1"
    book = AddressBook()
    book.add_entry("replay-server", "10.0.0.7", 7001)
    book.add_entry("ps", "::1", 1)
    book.add_entry("ps", "::1", 2)
    assert book.entries["ps"] == {"host": "::1", "port": 2}
    assert book.dump() == {
        "SYMPH_REPLAY_SERVER_HOST": "10.0.0.7",
        "SYMPH_REPLAY_SERVER_PORT": "7001",
        "SYMPH_REPLAY_SERVER_ADDR": "10.0.0.7:7001",
        "SYMPH_PS_HOST": "::1",
        "SYMPH_PS_PORT": "2",
        "SYMPH_PS_ADDR": "[::1]:2",
    }


@pytest.mark.parametrize("name", [None, "", "a:b"])
def test_an_invalid_name_is_a_value_error_at_the_callers_line(name: Any) -> None:
    cluster = Cluster.new("tmux")
    for declare in (
        cluster.new_experiment,
        cluster.new_experiment("x").new_process,
        cluster.new_experiment("x").new_process_group,
    ):
        with pytest.raises(ValueError, match="is not a valid name") as error:
            declare(name)
        assert __file__.rpartition("/")[2] in str(error.value)
