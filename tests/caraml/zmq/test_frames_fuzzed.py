"""Malformed protocol frames sent to every class that reads them: a correct peer is served afterwards."""

import random
import threading
import time

import pytest
import zmq

import caraml
from caraml.zmq.acknowledged.protocol import HELLO, READY, pack_head
from caraml.zmq.pubsub import topic_frame

ROUNDS = 1500
NUMBERS = [0, 1, 2, 3, 64, 65535, (1 << 63) - 1, (1 << 64) - 1]
# Empty; a TREE of 1, which is valid; ARRAYS cut off; JOINED of no parts; msgpack without its first bytes.
BODIES = [b"", b"\xca\x01\x01", b"\xca\x02\xff", b"\xca\x06" + bytes(4), b"\x93\xff\0"]
pytestmark = pytest.mark.timeout(60)


def malformed(roll):
    """Return a message similar to those of the protocols: wrong numbers, cut off, too many parts."""

    def number():
        return roll.choice(NUMBERS)

    start = roll.choice(
        [
            pack_head(
                roll.choice([roll.randrange(256), *range(HELLO, READY + 1)]),
                (number(), roll.choice([0, 1, (1 << 32) - 1])),
                number(),
                number(),
                roll.choice([0, 1, 2, 3, 65535]),
                number(),
                number(),
            ),
            topic_frame.header(
                b"t" * roll.randrange(3), roll.randrange(6), roll.randrange(3), roll.randrange(300)
            ),
            roll.randbytes(roll.randrange(80)),
        ]
    )
    whole = start + roll.choice(BODIES)
    head = whole if roll.random() < 0.9 else whole[: roll.randrange(60)]
    return [head, *(roll.randbytes(roll.randrange(9)) for _ in range(roll.choice([0, 0, 0, 1, 2, 9])))]


def attack(mode, address):
    """Send many malformed messages over a few connections."""
    roll = random.Random(0)
    with zmq.Context() as context:
        for _ in range(5):
            with context.socket(mode) as raw:
                raw.linger, raw.sndtimeo = 1000, 5000
                raw.connect(address)
                for _ in range(ROUNDS // 5):
                    raw.send_multipart(malformed(roll))


def receives_during_attack(end, mode, address, honest):
    """Receive until the correct message arrives, which is sent after the attack."""

    def send():
        attack(mode, address)
        honest()

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    while end.recv(timeout=20) != "honest":
        pass
    sending.join(20)


@pytest.mark.parametrize("binder", ["receiver", "sender"])
def test_acknowledged_delivery_survives_malformed_frames(binder):
    if binder == "receiver":
        receiver = bound = caraml.ZmqReceiver(port=0, deserializer="msgpack")
        sender = caraml.ZmqSender(address=receiver.address, serializer="msgpack", timeout=20)
    else:
        sender = bound = caraml.ZmqSender(port=0, bind=True, serializer="msgpack", timeout=20)
        receiver = caraml.ZmqReceiver(address=sender.address, bind=False, deserializer="msgpack")

    def honest():
        sender.send("honest")
        sender.flush(timeout=20)

    receives_during_attack(receiver, zmq.DEALER, bound.address, honest)
    assert bound.rejected > 0
    sender.close(0)
    receiver.close(0)


@pytest.mark.parametrize("policy", ["all", "latest"])
def test_a_subscriber_survives_malformed_frames(policy):
    subscriber = caraml.ZmqSub(port=0, bind=True, topic="", deserializer="msgpack", policy=policy)
    publisher = caraml.ZmqPub(address=subscriber.address, bind=False, serializer="msgpack")

    def honest():
        publisher.wait_subscribers(1, timeout=10)
        for _ in range(1 if policy == "all" else 20):  # a later one of the attack may be the newest
            publisher.pub("t", "honest")
            time.sleep(0.02)

    receives_during_attack(subscriber, zmq.PUB, subscriber.address, honest)
    publisher.close(0)
    subscriber.close(0)


def test_a_publisher_survives_malformed_frames():
    with caraml.ZmqPub(port=0) as publisher:
        attack(zmq.XSUB, publisher.address)
        with caraml.ZmqSub(address=publisher.address, topic="mine") as subscriber:
            publisher.wait_subscribers(1, timeout=10, topic="mine")
            publisher.pub("mine", b"honest")
            assert subscriber.recv(timeout=10) == b"honest"
