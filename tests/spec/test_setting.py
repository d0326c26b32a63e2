"""One definition for each setting: the keywords that an IDE offers are those of the fields."""

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
def test_the_typed_keywords_are_the_settings_of_the_fields(options, kind, beside):
    # cmds may be given by its place, so it stands in the signature.
    assert options.__optional_keys__ | {"cmds"} == set(keywords_of(kind)) | beside | {"cmds"}
