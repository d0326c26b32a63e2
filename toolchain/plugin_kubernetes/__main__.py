"""The program the engine starts: steps aside for a real plugin, else serves until the engine closes it."""

from __future__ import annotations

import os
import sys

from toolchain.plugin_kubernetes import real


def main() -> None:
    result = real.find()
    if result is not None:
        os.execv(result, [str(result), *sys.argv[1:]])
    from toolchain.plugin_kubernetes.provider import Provider  # a real plugin must not pay for these
    from toolchain.plugin_kubernetes.serve import serve

    serve(Provider(sys.argv[1] if len(sys.argv) > 1 else ""))


main()
