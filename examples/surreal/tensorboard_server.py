"""Runs TensorBoard on the files of tensorplex; `tensorboard` of the stack."""

import os
import sys
from pathlib import Path

from shared.settings import chosen, parser


def main() -> None:
    folder = Path(chosen(parser().parse_args()).folder) / "tensorboard"
    folder.mkdir(parents=True, exist_ok=True)
    host, port = os.environ["SYMPH_TENSORBOARD_BIND"], os.environ["SYMPH_TENSORBOARD_PORT"]
    words = ["--logdir", str(folder), "--host", host, "--port", port]
    os.execv(sys.executable, [sys.executable, "-m", "tensorboard.main", *words])


if __name__ == "__main__":
    main()
