"""Digests of declared code, and how the plan names changed files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from symphony.plan import code
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from symphony.plan.changes import Component, Components, changes
from symphony.spec.shared import CodeFiles
from tests.plans import problems

PROGRAM = """
exp = Experiment("rl", code="shared.py")
exp.new_process("a", cmds="a")
exp.new_process_group("g", code=["agents/"]).new_process("b", cmds="b", code=["b.py"])
"""
FILES = {name: CodeFiles({name: name * 8}) for name in ("shared.py", "agents/", "b.py")}


def test_code_of_group_and_experiment_counts_for_their_processes(declare: Any, tmux: BackendLimits) -> None:
    def digests(files: dict[str, CodeFiles]) -> list[str]:
        spec = replace(declare(PROGRAM)[0], code_files=files)
        plan = build_plan(spec, tmux)
        assert {*plan.code} == {each.service_env[code.VARIABLE] for each in plan.processes}
        return [each.service_env[code.VARIABLE] for each in plan.processes]

    before = digests(FILES)
    assert digests(FILES) == before
    both = digests({**FILES, "shared.py": CodeFiles({"shared.py": "other"})})
    assert [each == old for each, old in zip(both, before, strict=True)] == [False, False]
    file = digests({**FILES, "agents/": CodeFiles({"agents/": "other"})})
    assert [each == old for each, old in zip(file, before, strict=True)] == [True, False]


def test_a_process_without_code_has_no_digest(declare: Any, tmux: BackendLimits) -> None:
    plan = build_plan(declare('exp = Experiment("rl")\nexp.new_process("a", cmds="a")')[0], tmux)
    assert code.VARIABLE not in plan.processes[0].service_env
    assert not plan.code


def test_missing_code_is_reported_with_its_line(declare: Any, tmux: BackendLimits) -> None:
    spec, lines = declare(
        """
        exp = Experiment("rl")
        exp.new_process("a", cmds="a", code=["a.py"])
        exp.new_process("b", cmds="b", code=["gone.py"])  # <-
        """
    )
    files = {"a.py": CodeFiles({"a.py": "1"}), "gone.py": CodeFiles(trouble="it does not exist")}
    (problem,) = problems(replace(spec, code_files=files), tmux)
    assert problem.what == 'code="gone.py" of b cannot be used: it does not exist'
    assert [place.line for place in problem.where] == lines


SETS = {
    "old": {"agents/net.py": "1" * 32, "gone.py": "2" * 32, "same.py": "3" * 32},
    "new": {"agents/net.py": "9" * 32, "new.py": "2" * 32, "same.py": "3" * 32},
    "large": {f"{number}.py": "1" * 32 for number in range(7)},
    "none": {},
}


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("old", "new", "code: agents/net.py, gone.py, new.py"),
        ("none", "large", "code: 0.py, 1.py, 2.py, 3.py, 4.py and 2 more"),
        ("0123456789", "new", "code: 01234567 -> new"),
        (None, "new", "code: now declared"),
        ("old", None, "code: no longer declared"),
    ],
)
def test_the_reason_lists_changed_files(before: str | None, after: str | None, why: str) -> None:
    assert _reasons({code.VARIABLE: before} if before else {}, {code.VARIABLE: after} if after else {}) == [
        why
    ]


def test_changed_code_and_port_are_two_reasons() -> None:
    before = {code.VARIABLE: "old", "SYMPH_A_PORT": "1"}
    after = {code.VARIABLE: "new", "SYMPH_A_PORT": "2"}
    assert _reasons(before, after) == ["code: agents/net.py, gone.py, new.py", "port of a: 1 -> 2"]


def _reasons(before: dict[str, str], after: dict[str, str]) -> list[str]:
    process = Component({"services": before}, {"services": after, "fingerprint": "new"})
    experiment = Component({"code": code.pack(SETS)}, {"code": code.pack(SETS)})
    (row,) = changes({"a": "old"}, Components(experiment, {}, {"a": process}), {})
    return list(row.reasons)


def test_digests_packed_in_the_state_are_compared_with_current_ones() -> None:
    kept = code.unpack(code.pack(SETS))
    assert code.why("old", "new", {**kept, "new": SETS["new"]}) == "code: agents/net.py, gone.py, new.py"
    assert code.unpack("") == code.unpack("damaged!") == {}


def test_digests_of_ten_thousand_files_take_less_than_200_kb_in_the_state() -> None:
    files = {
        f"some/folder/of/the/project/{number}.py": f"{number * 7919:032x}"[::-1] for number in range(10_000)
    }
    assert len(code.pack({"digest": files})) < 200_000


def test_a_path_with_a_variable_of_the_shell_is_told_as_such(declare: Any, tmux: BackendLimits) -> None:
    """The program, code, secret and config files, and start_dir: none of them is read by a shell."""
    spec, _ = declare(
        """
        exp = Experiment("rl", code=["$LAB/a.py"], secrets=["$LAB/key"], configs=["$LAB/c.yaml"])
        exp.new_process("a", command="$LAB/tool", start_dir="$LAB")
        exp.new_process("b", command="~/tool")
        """
    )
    unreadable = dict.fromkeys(("$LAB/key", "$LAB/c.yaml", "$LAB"), "no such file")
    limits = replace(tmux, unreadable=unreadable, unstartable={"a": "no such file", "b": "no such file"})
    files = {"$LAB/a.py": CodeFiles(trouble="it does not exist")}
    found = [*problems(replace(spec, code_files=files), limits)]
    assert len(found) == 6
    assert all("os.path.expand" in problem.remedy for problem in found)
