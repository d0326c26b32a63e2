"""A socket refuses a second thread."""

import sys
import threading

import numpy as np
import pytest

import caraml


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
