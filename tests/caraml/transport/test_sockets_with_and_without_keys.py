"""Sockets with keys and sockets without work in one process."""

import pytest

import caraml
from caraml.keys import make_keys
from caraml.zmq import ZmqSocket


@pytest.mark.timeout(60)
@pytest.mark.parametrize("modes", [("PUSH", "PULL"), ("DEALER", "DEALER")], ids=["push", "dealer"])
def test_a_socket_without_keys_delivers_before_close_beside_one_with_keys(tmp_path, modes):
    make_keys(tmp_path)
    with caraml.ZmqPuller(port=0, keys=tmp_path):
        for _ in range(60):
            receiver = ZmqSocket(port=0, socket_mode=modes[1], bind=True).establish()
            receiver.rcvtimeo = 5000
            sender = ZmqSocket(address=receiver.address, socket_mode=modes[0], bind=False).establish()
            sender.send(b"last word")
            sender.close()
            assert receiver.recv() == b"last word"
            receiver.close(0)
