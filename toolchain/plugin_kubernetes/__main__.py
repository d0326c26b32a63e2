"""The stand-in as a program: `python -m toolchain.plugin_kubernetes`."""

from symphony.backends.kubernetes import plugin
from toolchain.plugins import serve

serve.main(plugin.KUBERNETES)
