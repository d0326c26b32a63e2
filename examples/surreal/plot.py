"""Draws the evaluations of runs over time, from the log of all roles: `python plot.py curve.png runs/*`."""

import re
import sys
from pathlib import Path

from matplotlib import pyplot

EVALUATION = re.compile(r"evaluator-\d+: +(?P<seconds>\S+) s .* return +(?P<mean>\S+) \(")


def curve(folder: Path) -> tuple[list[float], list[float]]:
    """Return the times in seconds and the mean returns of a run."""
    result = EVALUATION.finditer((folder / "log.txt").read_text())
    pairs = [(float(each["seconds"]), float(each["mean"])) for each in result]
    return [seconds for seconds, _ in pairs], [mean for _, mean in pairs]


def draw(file: Path, runs: dict[str, list[Path]], targets: dict[str, float]) -> None:
    """Draw one plot for each title, with one line for each of its runs."""
    figure, axes = pyplot.subplots(1, len(runs), figsize=(5 * len(runs), 3.2), squeeze=False)
    for axis, (title, folders) in zip(axes[0], runs.items(), strict=True):
        for folder in folders:
            axis.plot(*curve(folder), linewidth=1, label=folder.name)
        if title in targets:
            axis.axhline(targets[title], color="grey", linestyle=":", linewidth=1)
        axis.set(title=title, xlabel="seconds", ylabel="mean return of 20 episodes")
        axis.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), {"runs": [Path(word) for word in sys.argv[2:]]}, {})
