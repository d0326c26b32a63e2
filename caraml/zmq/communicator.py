"""Exports the names that the module `caraml.zmq.communicator` of caraml 0.10 had."""

from caraml.zmq import *  # noqa: F403
