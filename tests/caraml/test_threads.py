"""Threads may share the codec; a socket refuses a second thread."""

import dataclasses
import sys
import threading
from typing import Any

import numpy as np
import pytest

import caraml
from caraml import codec

ENCODER, DECODER = codec.Encoder(), codec.Decoder()
OTHERS = [np.full(1 << 14, 9.0)]
ENCODED_OTHERS = codec.encode(OTHERS)


@codec.register
@dataclasses.dataclass
class Interrupted:
    """A record that uses the encoder and decoder while it is encoded, as another thread could."""

    first: object
    second: object

    def __getattribute__(self, name):
        if name == "second":
            ENCODER.encode([*OTHERS, 1 << 80])
        return object.__getattribute__(self, name)

    def __post_init__(self):
        head, *rest = ENCODED_OTHERS
        assert DECODER.decode(head, rest)[0][0] == 9


def test_one_encoder_and_decoder_are_reentrant():
    mine = np.full(1 << 14, 1.0)
    encoded: Any = ENCODER.encode([Interrupted(mine, mine * 2), mine * 3])
    head, *rest = encoded
    assert len(rest) == 3
    got = DECODER.decode(head, [bytearray(part) for part in rest])
    assert (got[0].first[0], got[0].second[0], got[1][0]) == (1, 2, 3)


@pytest.fixture
def quick_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work, count=3):
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


@pytest.mark.timeout(60)
def test_concurrent_threads_on_one_pusher_never_mix_messages(quick_switches):
    def push(number):
        pad = [{"k": j} for j in range(50)]
        value = {"id": number, "pad": pad, "array": np.full(8200, number, "f8"), "end": pad}
        for _ in range(100):
            try:
                pusher.push(value)
            except caraml.ConcurrentUseError:
                continue

    with (
        caraml.ZmqPuller(address="inproc://threads", deserializer="msgpack", hwm=0) as puller,
        caraml.ZmqPusher(address="inproc://threads", serializer="msgpack", hwm=0) as pusher,
    ):
        in_threads(push)
        received = 0
        while True:
            try:
                got = puller.pull(timeout=0.3)
            except caraml.ZmqTimeoutError:
                break
            received += 1
            assert (got["array"] == got["id"]).all()
        assert received > 0
        assert puller.rejected == 0
