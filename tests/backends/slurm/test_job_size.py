"""The size of an experiment's job, and the changes that need a new job."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import symphony_slurm.folder
from symphony.backends.slurm import job_size
from symphony.backends.slurm.settings import Settings
from symphony.spec.pod import Place
from symphony.spec.process import ProcessSpec
from symphony_slurm.folder import Folder

SETTINGS = Settings(partition="gpu", nodes=2, sbatch_options=("--exclusive",))
Share = partial(symphony_slurm.folder.Share, partition="gpu")
On = partial(symphony_slurm.folder.Share, partition="cpu")


def test_sbatch_options_cover_the_largest_process_on_each_node(tmp_path: Path) -> None:
    shares = {"learner": Share(cpus=4.5, memory=2048, gpus=1), "a": Share(cpus=1), "b": Share(cpus=1)}
    options = job_size.options_of(SETTINGS, shares, Folder(tmp_path))
    assert options == [
        *("--partition=gpu", "--nodes=2", "--ntasks-per-node=1"),
        *("--cpus-per-task=5", "--mem=2240M", "--gres=gpu:1", "--exclusive"),
    ]
    assert job_size.in_words(options) == "2 nodes with 5 cpu, 2.19 GiB, 1 GPU each (partition gpu)"


def test_sbatch_options_request_gpu_types_and_constraints(tmp_path: Path) -> None:
    shares = {
        "learner": Share(gpus=2, gpu_type="v100", constraint="fast|new"),
        "actor": Share(gpus=1, group="g"),
        "critic": Share(gpus=1, gpu_type="v100", group="g", constraint="big"),
    }
    options = job_size.options_of(SETTINGS, shares, Folder(tmp_path))
    assert {"--gres=gpu:1,gpu:v100:2", "--constraint=big&(fast|new)"} <= {*options}
    assert "1 GPU, 2 v100 GPU each" in job_size.in_words(options)
    Folder(tmp_path).note_options(tuple(options))
    assert job_size.options_of(SETTINGS, shares, Folder(tmp_path)) == options


def test_the_supervisor_has_memory_of_its_own_where_any_is_asked_for(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    many = {f"p{number}": Share(memory=100) for number in range(100)}
    options = job_size.options_of(SETTINGS, many, folder)
    # 8 MiB for each process, whose number is rounded up to a power of two, so "one more" fits.
    assert f"--mem={50 * 100 + 64 + 8 * 128}M" in options
    folder.note_options(tuple(options))
    assert job_size.options_of(SETTINGS, {**many, "one more": Share()}, folder) == options


def test_a_smaller_request_keeps_the_job_and_a_larger_one_needs_a_new_job(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    before = job_size.options_of(SETTINGS, {"a": Share(cpus=4, gpus=1)}, folder)
    folder.note_options(tuple(before))
    assert job_size.options_of(SETTINGS, {"a": Share(cpus=2)}, folder) == before
    assert job_size.options_of(SETTINGS, {"a": Share(cpus=5)}, folder) != before
    other = Settings(partition="gpu", nodes=3, sbatch_options=("--exclusive",))
    assert job_size.options_of(other, {"a": Share(cpus=2)}, folder) != before


def test_processes_of_two_partitions_get_a_heterogeneous_job(tmp_path: Path) -> None:
    shares = {"learner": Share(cpus=4, gpus=1), **{f"a{n}": On(cpus=2) for n in range(3)}}
    options = job_size.options_of(SETTINGS, shares, Folder(tmp_path))
    assert options == [
        *("--partition=gpu", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=4", "--gres=gpu:1"),
        *("--exclusive", ":", "--partition=cpu", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4"),
        "--exclusive",
    ]
    assert " and 2 nodes with 4 cpu each (partition cpu)" in job_size.in_words(options)
    # All in one partition: an ordinary job.
    assert ":" not in job_size.options_of(SETTINGS, {"a": On(), "b": On()}, Folder(tmp_path))


def test_components_that_need_gpus_come_first_and_that_of_the_stack_last(tmp_path: Path) -> None:
    """Slurm gives the nodes to one component after the other: the first must not get the last GPU node."""
    shares = {"a": Share(), "b": On(), "c": symphony_slurm.folder.Share(partition="v100", gpus=1)}
    options = job_size.options_of(SETTINGS, shares, Folder(tmp_path))
    assert [part[0] for part in job_size.components(options)] == [
        *("--partition=v100", "--partition=cpu", "--partition=gpu")
    ]


def test_each_component_has_the_memory_of_its_own_processes(tmp_path: Path) -> None:
    """sbatch passes --mem of one component on to others, but not --mem-per-cpu."""
    folder = Folder(tmp_path)
    shares = {"learner": Share(gpus=1, cpus=2, memory=1000), "a": On(), "b": On(memory=100)}
    options = job_size.options_of(SETTINGS, shares, folder)
    first, last = job_size.components(options)
    # The supervisor runs in the first.
    assert "--mem-per-cpu=596M" in first
    assert "--mem-per-cpu=100M" in last
    folder.note_options(tuple(options))
    assert job_size.options_of(SETTINGS, shares, folder) == options
    without = job_size.options_of(SETTINGS, shares | {"b": On()}, Folder(tmp_path / "other"))
    assert not any(option.startswith("--mem") for option in job_size.components(without)[1])


def test_options_that_the_stack_lists_need_no_new_job(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    settings = Settings(sbatch_options=("--mem=64G", "--gres=gpu:v100:2", "--cpus-per-task=8"))
    options = job_size.options_of(settings, {"a": Share(partition="", cpus=2)}, folder)
    folder.note_options(tuple(options))
    assert job_size.in_words(options)
    assert job_size.options_of(settings, {"a": Share(partition="", cpus=1)}, folder) == options


def test_a_component_has_no_more_nodes_than_it_has_use_for(tmp_path: Path) -> None:
    def nodes(*shares: symphony_slurm.folder.Share) -> str:
        settings = Settings(nodes=3)
        every = {f"p{number}": share for number, share in enumerate((*shares, On()))}
        options = job_size.options_of(settings, every, Folder(tmp_path))
        (part,) = (each for each in job_size.components(options) if each[0] == "--partition=gpu")
        return next(option for option in part if option.startswith("--nodes"))

    assert nodes(Share()) == "--nodes=1"
    assert nodes(*[Share()] * 5) == "--nodes=3"
    # A node for a process without a GPU would have one as well.
    assert nodes(Share(gpus=1), Share(), Share()) == "--nodes=1"
    assert nodes(*[Share(gpus=1)] * 4) == "--nodes=2"


def test_a_change_that_fits_the_components_keeps_the_job(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    shares = {"learner": Share(gpus=1), "a": On(cpus=2), "b": On()}
    before = job_size.options_of(SETTINGS, shares, folder)
    folder.note_options(tuple(before))
    for same in (
        {**shares, "a": Share()},
        {**shares, "c": On()},
        {"learner": Share(gpus=1), "b": On()},
    ):
        assert job_size.options_of(SETTINGS, same, folder) == before
    for other in (
        {**shares, "a": symphony_slurm.folder.Share(partition="spare")},
        {**shares, "learner": Share(gpus=2)},
        {**shares, "learner": On(gpus=1)},
        {**shares, "a": On(cpus=3)},
    ):
        assert job_size.options_of(SETTINGS, other, folder) != before
    fewer = Settings(partition="gpu", nodes=1, sbatch_options=("--exclusive",))
    assert job_size.options_of(fewer, shares, folder) != before


def test_the_partition_of_a_process_is_that_of_its_group_and_else_of_the_stack() -> None:
    placed = ProcessSpec(name="a", place=Place(partition="cpu"))
    members = [("a", placed, ""), ("g/a", placed, "g"), ("g/b", ProcessSpec(name="b"), "g")]
    shares = job_size.shares_of([*members, ("other", ProcessSpec(name="other"), "")], SETTINGS)
    partitions = {path: share.partition for path, share in shares.items()}
    assert partitions == {"a": "cpu", "g/a": "cpu", "g/b": "cpu", "other": "gpu"}


def test_the_reason_of_a_new_job_names_the_options_that_its_words_leave_out(tmp_path: Path) -> None:
    plain = Settings(time="10")
    before = job_size.options_of(plain, {"a": Share(partition="", cpus=1)}, Folder(tmp_path))
    larger = job_size.options_of(plain, {"a": Share(partition="", cpus=3)}, Folder(tmp_path))
    other = [*before, "--exclusive", "--nice=5"]
    assert job_size.reason(before, larger) == "has 1 node with 1 cpu (time 10)"
    assert job_size.reason(before, other) == "was submitted without --exclusive --nice=5"
    assert job_size.reason([*before, "--mail-type=END"], other) == (
        "was submitted with --mail-type=END and without --exclusive --nice=5"
    )
    assert job_size.reason(other, [*before, "--nice=5", "--exclusive"]) == (
        "was submitted with its options in another order"
    )
