"""Exports DataFetcher under the module name that caraml 0.10 had."""

from caraml.zmq.data_fetcher import DataFetcher as DataFetcher
