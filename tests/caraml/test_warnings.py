"""Warnings shown by default (rejected, unsent messages), and errors that name the remedy."""

import gc

import pytest
import zmq
import zmq.asyncio

import caraml


@pytest.mark.timeout(30)
def test_a_rejected_message_is_warned_about_and_counted_in_the_timeout_error(spawn):
    program = spawn("""
        import caraml
        with caraml.ZmqPuller(port=0, deserializer="msgpack") as puller:
            with caraml.ZmqPusher(address=puller.address) as pusher:
                pusher.push(b"no msgpack")
                try:
                    puller.pull(timeout=1)
                except caraml.ZmqTimeoutError as error:
                    print(error)
        """)
    code, output, errors = program.end(20)
    assert code == 0
    assert "1 rejected" in output
    assert "msgpack" in output
    assert "rejected" in errors


@pytest.mark.timeout(30)
@pytest.mark.parametrize("end", ["", "pusher.close()"], ids=["exit", "close"])
def test_a_pusher_warns_about_unsent_messages_at_exit_and_close(spawn, end):
    """Ten messages were once lost without a warning, with exit code 0."""
    program = spawn(f"""
        import caraml
        pusher = caraml.ZmqPusher(address="127.0.0.1:9")
        for n in range(10):
            pusher.push(b"x")
        {end}
        """)
    code, _, errors = program.end(20)
    assert code == 0
    assert "127.0.0.1:9" in errors
    assert "10 unsent messages" in errors


@pytest.mark.timeout(30)
def test_a_pusher_warns_about_unsent_messages_when_its_puller_has_ended(spawn):
    """Messages sent after a first connection had ended were once not counted."""
    program = spawn("""
        import time
        import numpy as np
        import caraml
        puller = caraml.ZmqPuller(port=0, deserializer="msgpack")
        pusher = caraml.ZmqPusher(address=puller.address, serializer="msgpack")
        pusher.push(0)
        puller.pull(timeout=10)
        puller.close(0)
        while not pusher.socket.link.lost:
            time.sleep(0.01)
        for n in range(9):
            pusher.push(n)
        pusher.push(np.zeros(1 << 20))
        """)
    code, _, errors = program.end(20)
    assert code == 0
    assert "10 unsent messages" in errors


@pytest.mark.timeout(30)
def test_a_pusher_that_delivered_and_closed_prints_no_warning(spawn):
    with caraml.ZmqPuller(port=0) as puller:
        program = spawn(f"""
            import caraml
            with caraml.ZmqPusher(address="{puller.address}") as pusher:
                pusher.push(b"x")
            """)
        assert puller.pull(timeout=10) == b"x"
        assert program.end(20)[2] == ""


def test_a_server_without_references_releases_its_port_at_once():
    gc.disable()
    try:
        server = caraml.ZmqServer(port=0, serializer="msgpack", deserializer="msgpack")
        address = server.address
        with pytest.warns(ResourceWarning):
            del server
        caraml.ZmqServer(address=address).close()
    finally:
        gc.enable()


@pytest.mark.parametrize(("data", "serializer"), [({}, "msgpack"), ([1], "msgpack"), ("a", "str")])
def test_the_error_for_an_unserialized_value_names_a_serializer(data, serializer):
    with caraml.ZmqPub(port=0) as publisher, caraml.ZmqPusher(address="127.0.0.1:9") as pusher:
        for send in (pusher.push, lambda data: publisher.pub("t", data)):
            with pytest.raises(caraml.EncodeError, match=f"serializer='{serializer}'"):
                send(data)
        pusher.close(0)


@pytest.mark.parametrize(("data", "serializer"), [({1}, "json"), (1, "str")])
def test_the_error_for_a_value_that_a_serializer_refuses_names_it(data, serializer):
    with caraml.ZmqPusher(address="127.0.0.1:9", serializer=serializer) as pusher:
        with pytest.raises(caraml.EncodeError, match=f"serializer='{serializer}'"):
            pusher.push(data)
        pusher.close(0)


@pytest.mark.timeout(20)
def test_sockets_work_with_zmq_poller_and_an_asyncio_context():
    context = zmq.asyncio.Context()
    with (
        caraml.ZmqPuller(port=0, context=context) as puller,
        caraml.ZmqPusher(address=puller.address, context=context) as pusher,
    ):
        poller = zmq.Poller()
        poller.register(puller, zmq.POLLIN)
        pusher.push(b"x")
        assert poller.poll(5000)
        assert puller.pull(timeout=5) == b"x"
        assert f"PULL bound to {puller.address}" in repr(puller)
    context.term()
