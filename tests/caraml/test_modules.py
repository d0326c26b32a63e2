"""Every module: its docstring with examples, and what importing it loads."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import caraml


def modules():
    return sorted(info.name for info in pkgutil.walk_packages(caraml.__path__, "caraml."))


@pytest.mark.parametrize("name", ["caraml", *modules()])
def test_every_module_has_a_docstring_whose_examples_run(name):
    module = importlib.import_module(name)
    assert module.__doc__
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_importing_sockets_loads_no_slow_module():
    """Each of these modules takes as long to load as all of caraml; sockets need none of them."""
    program = "import sys, caraml; caraml.ZmqPusher, caraml.ZmqClient, caraml.ZmqPub; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    slow = {"asyncio", "concurrent", "email", "http", "multiprocessing", "ssl", "tempfile", "unittest"}
    assert loaded.isdisjoint(slow | {"psutil", "pulumi", "pyarrow", "symphony", "yaml"})


def test_dir_lists_lazily_loaded_names():
    import caraml

    assert {"ZmqPuller", "ZmqPub", "DataFetcher", "encode", "Limits", "ZmqTimeoutError"} <= {*dir(caraml)}
