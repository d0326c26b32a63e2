"""Merges the reports of all roles: `logger.py tensorplex` numbers, `logger.py loggerplex` log lines."""

import time
from pathlib import Path

from shared.channels import puller
from shared.settings import chosen, parser
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

FLUSH_EVERY = 5


def tensorplex(folder: Path) -> None:
    """Write numbers into TensorBoard's event files, one run for each role."""
    writers: dict[str, EventFileWriter] = {}
    reports = puller("tensorplex")
    print(f"writes to {folder}/tensorboard", flush=True)
    while True:
        report = reports.pull()
        role, content = report["role"], report["content"]
        if role not in writers:
            writers[role] = EventFileWriter(str(folder / "tensorboard" / role), flush_secs=FLUSH_EVERY)
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in content["scalars"].items()]
        event = Event(wall_time=report["time"], step=content["step"], summary=Summary(value=values))
        writers[role].add_event(event)


def loggerplex(folder: Path) -> None:
    """Write lines into one file, in the order of arrival."""
    reports = puller("loggerplex")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", buffering=1) as log:
        while True:
            report = reports.pull()
            when = time.strftime("%H:%M:%S", time.localtime(report["time"]))
            line = f"{when} {report['role']}: {report['content']}"
            print(line, flush=True)
            print(line, file=log)


if __name__ == "__main__":
    options = parser()
    options.add_argument("kind", choices=["tensorplex", "loggerplex"])
    given = options.parse_args()
    {"tensorplex": tensorplex, "loggerplex": loggerplex}[given.kind](Path(chosen(given).folder))
