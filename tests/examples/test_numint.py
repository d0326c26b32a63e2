"""numint refuses invalid settings; its demo tells right from wrong results, and leaves nothing running."""

from __future__ import annotations

import runpy
import sys

import pytest
import yaml

from tests.sandbox import ROOT, Ran, Sandbox

DEMO = "examples/numint/demo.py"


def settings_of(sandbox: Sandbox, stack: str, **settings: str) -> None:
    """Write the settings of a stack, `workers` for numint:workers, as a person would."""
    text = yaml.safe_dump({"config": {f"numint:{name}": value for name, value in settings.items()}})
    (sandbox.folder / "stacks" / f"Pulumi.{stack}.yaml").write_text(text)


def demo(sandbox: Sandbox, *, code: int, deadline: float = 40) -> Ran:
    """Run the demo, and check that it leaves nothing running."""
    words = [sys.executable, DEMO, "--deadline", str(deadline)]
    ran = sandbox.run(words, code=code)
    assert not [name for name in sandbox.trees() if name.startswith("numint.demo/")]
    assert not [each for each in sandbox.symphony("ls", "--json").json if each["name"] == "numint.demo"]
    return ran


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"function": "cosine"}, 'function is "cosine", which is not one of log, pi, sine'),
        ({"workers": "0"}, 'workers is "0", which is not a whole number from 1 to 1000'),
        ({"workers": "-1"}, 'workers is "-1"'),
        ({"steps": "1.5"}, 'steps is "1.5"'),
        ({"steps": "10", "pieces": "11"}, 'pieces is "11", which is not a whole number from 1 to 10'),
    ],
    ids=["function", "zero", "negative", "float", "more pieces than points"],
)
def test_an_invalid_setting_is_a_one_line_error_with_a_remedy(
    sandbox: Sandbox, settings: dict[str, str], message: str
) -> None:
    settings_of(sandbox, "numint", **settings)
    ran = sandbox.symphony("up", "numint", "-y", code=2)
    setting = list(settings)[-1]
    (line,) = ran.err.splitlines()
    assert message in line
    assert f"numint:{setting} in stacks/Pulumi.numint.yaml" in line
    assert f"`pulumi config rm numint:{setting} --stack numint`" in line
    assert sandbox.trees() == {}
    assert sandbox.stacks() == set()


def test_the_stack_lists_exactly_the_functions_of_the_example() -> None:
    functions = runpy.run_path(str(ROOT / "examples/numint/functions.py"))["FUNCTIONS"]
    assert (
        f"FUNCTIONS = {tuple(sorted(functions))}".replace("'", '"') in (ROOT / "stacks/numint.py").read_text()
    )


@pytest.mark.thorough
def test_the_demo_checks_the_result_and_leaves_another_numint_untouched(sandbox: Sandbox) -> None:
    """The user's own numint runs meanwhile; the demo also works with other functions."""
    settings_of(sandbox, "numint", workers="1", steps="1000000000000")
    sandbox.symphony("up", "numint", "-y")
    before = sandbox.trees()
    settings_of(sandbox, "numint.demo", function="log", steps="1000000")
    ran = demo(sandbox, code=0)
    assert "log = 0.693147180560" in ran.out
    assert before == sandbox.trees()
    # The demo must judge its second run by that run's output, not by the first's.
    settings_of(sandbox, "numint.demo", steps="3", pieces="3")
    assert "WRONG" in demo(sandbox, code=1).out
