"""The size of an experiment's job, and the changes that need a new job."""

from __future__ import annotations

from pathlib import Path

from symphony.backends.slurm import job_size
from symphony.backends.slurm.settings import Settings
from symphony_slurm.folder import Folder, Share

SETTINGS = Settings(partition="gpu", nodes=2, sbatch_options=("--exclusive",))


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


def test_options_that_the_stack_lists_need_no_new_job(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    settings = Settings(sbatch_options=("--mem=64G", "--gres=gpu:v100:2", "--cpus-per-task=8"))
    options = job_size.options_of(settings, {"a": Share(cpus=2)}, folder)
    folder.note_options(tuple(options))
    assert job_size.in_words(options)
    assert job_size.options_of(settings, {"a": Share(cpus=1)}, folder) == options
