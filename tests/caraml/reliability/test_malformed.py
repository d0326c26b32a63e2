"""Malformed messages and peers that do not speak ZeroMQ; with real processes and a time bound."""

import contextlib
import socket
import struct

import numpy as np
import pytest
import zmq

import caraml
from tests.caraml.reliability.answering import SERVER, client


def malformed_messages():
    layout = b"\x91\x92\xa1a"  # one array called a, described as:
    wrong = [
        b"\x93\xa3<f4\x91\x03\xa1C",
        b"\x93\xa2|O\x91\x01\xa1C",
        b"\x93\xa3<f4\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1C",
    ]
    arrays = [layout + bytes((0xC4, len(meta))) + meta for meta in wrong]
    yield [b""]
    yield [b"\xca"]
    yield [b"not a message"]
    yield [b"\xca\x01"]
    yield [b"\xca\x01\xc1"]
    yield [b"\xca\x01" + b"\x91" * 5000 + b"\x01"]
    yield [b"\xca\x01\x01", b"a part too many"]
    yield from ([b"\xca\x02" + struct.pack("<I", len(packed)) + packed + b"12345"] for packed in arrays)
    yield [b"\xca\x02\xff\xff\xff\xff"]
    yield [b"x"] * 100_000
    yield [bytes(2 << 20)]


@pytest.mark.timeout(40)
def test_malformed_messages_are_rejected_and_counted(spawn):
    program = spawn("""
        import caraml
        server = caraml.ZmqServer(port=0, deserializer="msgpack", serializer="msgpack",
            limits=caraml.Limits(message_bytes=1 << 20))
        print(server.address)
        thread = server.start_loop(lambda request: (server.rejected, request), blocking=True)
    """)
    address = program.line()
    count = 0
    for message in malformed_messages():
        with zmq.Context() as context, context.socket(zmq.REQ) as attacker:
            attacker.linger, attacker.rcvtimeo, attacker.sndtimeo = (
                0,
                300 if len(message[0]) > 1 << 20 else 5000,
                5000,
            )
            attacker.connect(address)
            attacker.send_multipart(message)
            if len(message[0]) > 1 << 20:  # over MAXMSGSIZE: the connection is cut
                with pytest.raises(zmq.Again):
                    attacker.recv_multipart()
            else:
                assert attacker.recv_multipart()[0] == b"\xca\x05"
                count += 1
    with client(address, timeout=5) as honest:
        assert honest.request({"a": 1}) == (count, {"a": 1})
    assert count >= 12


@pytest.mark.timeout(20)
def test_an_exception_in_the_handler_reaches_its_client_and_the_server_continues(spawn):
    address = spawn(SERVER, "127.0.0.1:0").line()
    with client(address, timeout=5) as asking, client(address, timeout=5) as other:
        with pytest.raises(caraml.RemoteError, match="KeyError: 'this'"):
            asking.request({"fail": "this"})
        assert asking.request({"x": 1}) == other.request({"x": 1}) == 1


@pytest.mark.timeout(30)
def test_raw_tcp_and_zmtp1_peers_cannot_deliver_messages(spawn):
    puller = spawn("""
        import caraml
        puller = caraml.ZmqPuller(port=0)
        print(puller.address)
        count = 0
        try:
            while True:
                message = puller.pull(timeout=3)
                if message != b"honest":
                    count += 1
                else:
                    print(count)
        except caraml.ZmqTimeoutError:
            print(count)
    """)
    address = puller.line()
    port = int(address.rpartition(":")[2])
    generator = np.random.default_rng(1)
    for n in range(30):
        with socket.create_connection(("127.0.0.1", port)) as peer, contextlib.suppress(OSError):
            # ZMTP/1.0: an empty identity, then frames of length, flags, body
            start = b"" if n % 2 else b"\x01\x00"
            peer.sendall(start + b"\x05\x00junk" * 20 + generator.bytes(3000))
    with caraml.ZmqPusher(address=address) as pusher:
        pusher.push(b"honest")
        assert puller.line() == "0"
    assert puller.line() == "0"
