"""What messages cost in memory that nobody sees: pages given back to the kernel and faulted in again."""

import numpy as np
import pytest

import caraml

ARRAYS, ROUNDS = 5, 20
NBYTES = 3 << 20


@pytest.mark.timeout(60)
def test_the_pages_of_large_messages_are_kept_for_the_next_ones(spawn):
    receiver = spawn(
        """
        import resource, sys, caraml
        server = caraml.ZmqServer(port=0, deserializer="msgpack")
        print(server.address)
        def answer():
            server.recv()
            server.send(b"")
        for _ in range(5):
            answer()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(int(sys.argv[1])):
            answer()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        server.close(1)
        """,
        ROUNDS,
    )
    value = {f"layer{n}": np.ones(NBYTES, np.uint8) for n in range(ARRAYS)}
    with caraml.ZmqClient(address=receiver.line(), serializer="msgpack", timeout=10) as client:
        for _ in range(5 + ROUNDS):
            client.request(value)
    pages_of_one = ARRAYS * NBYTES // 4096
    assert int(receiver.line()) < ROUNDS * pages_of_one / 10
