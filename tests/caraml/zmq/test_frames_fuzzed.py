"""Malformed protocol frames sent to every class that reads them.

The program sees no exception, and a correct peer is served afterwards.
"""

import random
import threading
import time

import pytest
import zmq

import caraml
from caraml.zmq.acknowledged.protocol import HELLO, READY, pack_head
from caraml.zmq.pubsub import topic_frame

ROUNDS = 1500


class MalformedFrames:
    """Generate messages similar to those of the protocols: wrong numbers, truncated, too many parts."""

    def __init__(self) -> None:
        self.random = random.Random(0)

    def number(self) -> int:
        return self.random.choice([0, 1, 2, 3, 64, 65535, (1 << 63) - 1, (1 << 64) - 1])

    def head(self) -> bytes:
        roll = self.random
        session = roll.choice([0, 1, 2, (1 << 64) - 1]), roll.choice([0, 1, (1 << 32) - 1])
        return pack_head(
            roll.randrange(256) if roll.random() < 0.1 else roll.randrange(HELLO, READY + 1),
            session,
            self.number(),
            self.number(),
            roll.choice([0, 1, 2, 3, 65535]),
            self.number(),
            self.number(),
        )

    def published(self) -> bytes:
        roll = self.random
        return topic_frame.header(
            b"t" * roll.randrange(3), roll.randrange(6), roll.randrange(3), roll.randrange(300)
        )

    def message(self) -> list[bytes]:
        roll = self.random
        start = roll.choice([self.head, self.published, lambda: roll.randbytes(roll.randrange(80))])()
        body = roll.choice(
            [b"", b"\xca\x01\x01", b"\xca\x02\xff", b"\xca\x06" + bytes(4), roll.randbytes(30)]
        )
        whole = start + body if roll.random() < 0.9 else (start + body)[: roll.randrange(60)]
        return [whole, *(roll.randbytes(roll.randrange(9)) for _ in range(roll.choice([0, 0, 0, 1, 2, 9])))]


def attack(mode, address, count=ROUNDS):
    """Send all messages over a few connections."""
    harm = MalformedFrames()
    with zmq.Context() as context:
        for _ in range(5):
            with context.socket(mode) as raw:
                raw.linger, raw.sndtimeo = 1000, 5000
                raw.connect(address)
                for _ in range(count // 5):
                    raw.send_multipart(harm.message())


def served_meanwhile(receive, mode, address, honest, **options):
    """Receive in a thread during the attack until the correct message arrives; raise its errors here."""
    failed, got = [], []

    def run():
        try:
            while not got:
                message = receive(timeout=20)
                if message == "honest":
                    got.append(message)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    attack(mode, address, **options)
    honest()
    thread.join(20)
    if failed:
        raise failed[0]
    assert got == ["honest"]


@pytest.mark.timeout(60)
def test_a_receiver_survives_malformed_frames():
    receiver = caraml.ZmqReceiver(port=0, deserializer="msgpack")
    sender = caraml.ZmqSender(address=receiver.address, serializer="msgpack", timeout=10)
    served_meanwhile(receiver.recv, zmq.DEALER, receiver.address, lambda: sender.send("honest"))
    assert receiver.rejected > 0
    sender.close(0)
    receiver.close(0)


@pytest.mark.timeout(60)
def test_a_binding_sender_survives_malformed_frames():
    sender = caraml.ZmqSender(port=0, bind=True, serializer="msgpack", timeout=20)
    receiver = caraml.ZmqReceiver(address=sender.address, bind=False, deserializer="msgpack")
    attacked = threading.Thread(target=attack, args=(zmq.DEALER, sender.address))
    attacked.start()
    served_meanwhile(
        receiver.recv,
        zmq.DEALER,
        sender.address,
        lambda: (attacked.join(), sender._read_answers(), sender.send("honest"), sender.flush(timeout=20)),
        count=5,
    )
    assert sender.rejected > 0
    receiver.close(0)
    sender.close(0)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("policy", ["all", "latest"])
def test_a_subscriber_survives_malformed_frames(policy):
    subscriber = caraml.ZmqSub(port=0, bind=True, topic="", deserializer="msgpack", policy=policy)
    publisher = caraml.ZmqPub(address=subscriber.address, bind=False, serializer="msgpack")

    def honest():
        publisher.wait_subscribers(1, timeout=10)
        for _ in range(1 if policy == "all" else 20):  # a later one of the attack may be the newest
            publisher.pub("t", "honest")
            time.sleep(0.02)

    served_meanwhile(subscriber.recv, zmq.PUB, subscriber.address, honest)
    publisher.close(0)
    subscriber.close(0)


@pytest.mark.timeout(60)
def test_a_publisher_survives_malformed_frames():
    with caraml.ZmqPub(port=0) as publisher:
        attack(zmq.XSUB, publisher.address)
        with caraml.ZmqSub(address=publisher.address, topic="mine") as subscriber:
            publisher.wait_subscribers(1, timeout=10, topic="mine")
            publisher.pub("mine", b"honest")
            assert subscriber.recv(timeout=10) == b"honest"
