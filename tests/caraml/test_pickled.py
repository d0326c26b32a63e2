"""Signed pickles, refused with a warning if the key differs; attacks are in reliability/test_pickles.py."""

import logging
import pickle
import time
from typing import Any

import numpy as np
import pytest

import caraml
from caraml import pickled
from caraml.errors import MalformedMessageError

ENCODE, DECODE = pickled.pickle_codec("tcp://here", False, b"k" * 32)


@pytest.mark.timeout(30)
def test_a_pickle_signed_with_another_key_is_refused_with_one_warning(spawn, monkeypatch, caplog):
    monkeypatch.setenv(pickled.KEY_VARIABLE, "the key of this host, sixteen or more")
    puller = caraml.ZmqPuller(port=0, deserializer="pickle")
    sender = """
        import os, sys, caraml
        os.environ["CARAML_PICKLE_KEY"] = "the key of another host, of a pod"
        with caraml.ZmqPusher(address=sys.argv[1], serializer="pickle") as pusher:
            pusher.push(1)
            pusher.push(2)
        with caraml.ZmqPusher(address=sys.argv[1]) as pusher:
            pusher.push(b"end")
    """
    spawn(sender, puller.address)
    deadline = time.monotonic() + 20
    with puller, caplog.at_level(logging.WARNING, "caraml"):
        while puller.rejected < 3 and time.monotonic() < deadline:
            with pytest.raises(caraml.ZmqTimeoutError):
                puller.pull(timeout=0.5)
    assert puller.rejected == 3
    (messages,) = [record for record in caplog.records if "rejected" in record.message]
    assert "CARAML_PICKLE_KEY" in messages.message
    assert puller.address in messages.message


def test_mutated_pickles_are_refused_without_loading():
    value = {"a": np.zeros(1 << 14), "b": [1, "x"]}
    ENCODE(value)
    encoded: Any = ENCODE(value)
    head, *parts = encoded  # arrays of their own once a message was large
    assert DECODE(head, parts)["b"] == [1, "x"]
    generator = np.random.default_rng(0)
    for _ in range(2000):
        data = bytearray(head)
        where = int(generator.integers(0, len(data)))
        data[where] ^= int(generator.integers(1, 256))
        with pytest.raises(MalformedMessageError):
            DECODE(bytes(data), parts)
    for wrong in ([], [*parts, b""], [bytes(8)]):
        with pytest.raises(MalformedMessageError):
            DECODE(head, wrong)
    with pytest.raises(MalformedMessageError, match="not a pickle signed"):
        DECODE(pickle.dumps(1), [])


@pytest.mark.parametrize("address", ["tcp://here", "ipc:///tmp/here"])
def test_a_key_that_is_too_short_is_refused_on_every_transport(monkeypatch, address):
    monkeypatch.setenv(pickled.KEY_VARIABLE, "short")
    with pytest.raises(caraml.PickleRefusedError, match="shorter"):
        pickled.pickle_codec(address, False, None)
