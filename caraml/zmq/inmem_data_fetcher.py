"""The classic module name of DataFetcher."""

from caraml.zmq.data_fetcher import DataFetcher as DataFetcher
