"""The typed keywords (for IDEs) are those of the fields of the specs."""

from __future__ import annotations

import pytest

from symphony.components.builder import keywords_of
from symphony.spec.experiment import ExperimentOptions, ExperimentSpec, GroupOptions, ProcessGroupSpec
from symphony.spec.process import ProcessOptions, ProcessSpec


@pytest.mark.parametrize(
    ("options", "kind", "beside"),
    [
        (ExperimentOptions, ExperimentSpec, set()),
        (GroupOptions, ProcessGroupSpec, {"pod_yml"}),
        (ProcessOptions, ProcessSpec, {"pod_yml", "container_yml", "resources", "limits"}),
    ],
)
def test_typed_keywords_match_the_fields_of_the_spec(options, kind, beside):
    # cmds may be positional, so it is in the signature.
    assert options.__optional_keys__ | {"cmds"} == set(keywords_of(kind)) | beside | {"cmds"}
