"""`symphony gpus`: lists the GPUs of this machine."""

from symphony.cli import arguments, screen
from symphony.errors import UserError
from symphony.operations.process import size
from symphony.plan.problems import count
from symphony_tmux import gpus

HEAD = ("gpu", "name", "memory", "use", "held by", "programs")


def command(as_json: arguments.AsJson = False) -> None:
    """List the GPUs of this machine, the processes that hold them, and the processes that wait for them.

    A process in tmux holds the number of GPUs in its resource_limit(gpu=...).

    Examples:
        symphony gpus
        symphony gpus --json
    """
    devices, claims = gpus.devices(), gpus.claims()
    if not devices:
        raise UserError(
            "found no NVIDIA GPU on this machine",
            remedy="If it has one, run `pip install 'symphony-launch[gpu]'`: symphony lists GPUs with it",
        )
    holder = {uuid: claim for claim in claims for uuid in claim.gpus}
    waiting = [claim for claim in claims if not claim.gpus]
    if as_json:
        rows = [
            {
                "index": gpu.index,
                "uuid": gpu.uuid,
                "name": gpu.name,
                "used": gpu.used,
                "total": gpu.total,
                "busy": gpu.utilization,
                "held_by": holder[gpu.uuid].who if gpu.uuid in holder else None,
                "programs": {str(pid): used for pid, used in gpu.programs.items()},
            }
            for gpu in devices
        ]
        queue = [{"who": claim.who, "count": claim.count, "asked": claim.asked} for claim in waiting]
        screen.show_json({"gpus": rows, "waiting": queue})
        return
    screen.show_table(
        HEAD,
        [
            (
                gpu.index,
                gpu.name,
                f"{size(gpu.used)} of {size(gpu.total)}",
                "-" if gpu.utilization is None else f"{gpu.utilization}%",
                holder[gpu.uuid].who if gpu.uuid in holder else "-",
                ", ".join(map(gpus.program, gpu.programs)),
            )
            for gpu in devices
        ],
    )
    for claim in waiting:
        print(screen.clean(f"{claim.who} waits for {count(claim.count, 'GPU')}"))
