"""The shared-memory pool: a name opens one value once; names from other processes are not trusted."""

import os
from typing import Any

import msgspec
import numpy as np
import pytest

from caraml import codec
from caraml.codec.parts import join
from caraml.errors import MalformedMessageError, SharedMemoryError
from caraml.inmemory import SharedPool, get
from tests.caraml.codec.codec_values import raw


def large(value):
    return np.full(20_000, value, "f8")


def test_a_used_name_is_refused_and_the_new_value_reaches_its_reader():
    pool = SharedPool()
    old = pool.put(large(1))
    get(old).delete()
    new = pool.put(large(2))
    assert pool.nbytes < 2 * large(1).nbytes  # the same memory
    with pytest.raises(SharedMemoryError, match="was read already"):
        get(old)
    with get(new) as value:
        assert value[0] == 2
        with pytest.raises(SharedMemoryError, match="was read already"):
            get(new)


@pytest.mark.timeout(30)
def test_one_of_several_processes_gets_the_value(spawn):
    pool = SharedPool()
    names = [pool.put(large(n)) for n in range(50)]
    program = """
        import sys
        from caraml.errors import SharedMemoryError
        from caraml.inmemory import get
        print("ready")
        sys.stdin.readline()
        kept = []
        for name in sys.argv[1:]:
            try:
                kept.append(get(bytes.fromhex(name)))
            except SharedMemoryError:
                pass
        print(len(kept))
        sys.stdin.readline()
    """
    readers = [spawn(program, *(name.hex() for name in names), stdin=True) for _ in range(2)]
    for reader in readers:
        assert reader.line() == "ready"
    for reader in readers:
        reader.tell("go")
    assert sum(int(reader.line()) for reader in readers) == 50


def test_unread_memory_can_be_freed():
    pool = SharedPool(max_bytes=1 << 18)
    name = pool.put(large(1))
    assert pool.forget(name)
    assert not pool.forget(name)
    with pytest.raises(SharedMemoryError):
        get(name)
    with get(pool.put(large(2))) as value:
        assert value[0] == 2
    assert pool.inline == 0  # counts only large values that found no room
    assert not pool.forget(pool.put(1))  # a small value needs none
    kept = pool.put(large(3))
    held: Any = get(kept)
    assert not pool.forget(kept)  # its reader has it
    assert held.data[0] == 3


def test_releasing_an_old_buffer_does_not_affect_the_next_one():
    pool = SharedPool()
    buffer = pool.empty(20_000, "f8")
    where = buffer.ctypes.data
    get(pool.put(buffer)).delete()
    buffer = pool.empty(20_000, "f8")  # the old one dies after the new one is made
    assert buffer.ctypes.data == where
    buffer[:] = 5
    other = pool.empty(20_000, "f8")
    assert other.ctypes.data != where
    with get(pool.put(buffer)) as value:
        assert value[0] == 5


def test_the_size_of_a_buffer_may_be_a_numpy_integer():
    assert SharedPool().empty(np.prod((100, 200)), "f8").shape == (20_000,)


def test_a_view_of_a_value_keeps_its_memory():
    pool = SharedPool()
    buffer = pool.empty(20_000, "f8")
    buffer[:] = 1
    shared: Any = get(pool.put(buffer))
    view = shared.data.reshape(2, -1)[1:, 5:]
    del shared
    del buffer
    get(pool.put(large(2))).delete()
    assert (view == 1).all()
    before = pool.nbytes
    del view
    get(pool.put(large(3))).delete()
    kept: list[Any] = [get(pool.put(large(n))) for n in range(2)]  # both segments are free again
    assert pool.nbytes == before
    assert [shared.data[-1] for shared in kept] == [0, 1]


@pytest.mark.parametrize("dtype", ["f8", "u1", [("a", "i4"), ("b", "f4", 2)]])
def test_a_buffer_is_read_back_as_written(dtype):
    pool = SharedPool()
    for change in (
        lambda array: array,
        lambda array: array.T,
        lambda array: array.reshape(-1),
        lambda array: array[1:],
        lambda array: array[::-1],
        lambda array: [array],
    ):
        for fill in (b"1", b"2"):  # the second time with what was remembered of the first
            buffer = pool.empty((300, 400), dtype)
            buffer[:] = np.frombuffer(fill * buffer.nbytes, buffer.dtype).reshape(buffer.shape)
            buffer.reshape(-1)[-7:] = np.zeros(7, buffer.dtype)
            value = change(buffer)
            expected = np.array(value[0] if type(value) is list else value)
            with get(pool.put(value)) as got:
                got = got[0] if type(got) is list else got
                assert got.dtype == expected.dtype
                assert np.array_equal(got, expected)
    assert pool.inline == 0


@pytest.mark.parametrize("inside", [lambda array: array, lambda array: [array], lambda array: {"a": array}])
def test_a_buffer_within_a_value_is_not_copied(inside):
    pool = SharedPool()
    buffer = pool.empty((100, 200), "f8")
    buffer[:] = 1
    with get(pool.put(inside(buffer))) as got:
        array = got if isinstance(got, np.ndarray) else next(iter(got.values() if type(got) is dict else got))
        array[0, 0] = 7
        assert buffer[0, 0] == 7


def test_a_forked_child_uses_its_own_memory():
    pool = SharedPool()
    name = pool.put(large(1))
    child = os.fork()
    if child == 0:
        with get(pool.put(large(2))) as value:
            os._exit(0 if value[0] == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    with get(name) as value:
        assert value[0] == 1


def test_forged_names_are_refused():
    pool = SharedPool()
    name = pool.put(large(1))
    owner, descriptor, cookie, generation, head, parts = msgspec.msgpack.decode(name[2:])

    def described(**changes):
        fields = {"owner": owner, "descriptor": descriptor, "cookie": cookie, "generation": generation}
        fields |= {"head": head, "parts": parts, **changes}
        return name[:2] + msgspec.msgpack.encode(list(fields.values()))

    for wrong in (
        b"",
        b"name",
        join([b"x"])[:2] + bytes(4),  # joined, of no parts
        join([b"x"])[:2] + b"\xff\xff\0\0" + bytes(8 << 16),
        described(parts=[[0, 1 << 40]]),
        described(parts=[[-8, 8]]),
        described(parts=[[0, 0]] * 5000),
    ):
        with pytest.raises(MalformedMessageError):
            get(wrong)
    for gone, reason in (
        (described(cookie=b""), "exists"),
        (described(cookie=b"x" * 16), "closed"),
        (described(descriptor=0), "closed"),
        (described(owner=-1), "ended"),
        (described(owner=1 << 40), "ended"),
        (described(generation=generation + 1), "read"),
    ):
        with pytest.raises(SharedMemoryError, match=reason):
            get(gone)
    with get(name) as value:
        assert value[0] == 1


FOREIGN = """
    import mmap, os, struct, sys, fcntl
    if sys.argv[1] == "another user":
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    cookie, size = b"c" * 16, 1 << 20
    memory = os.memfd_create("caraml-" + cookie.hex(), os.MFD_ALLOW_SEALING)
    os.truncate(memory, size)
    full, reader, generation = 1, 0, 1
    os.pwrite(memory, struct.pack("<IIQ16s", full, reader, generation, cookie), 0)
    if sys.argv[1] == "another user":
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    print(os.getpid(), memory)
    sys.stdin.readline()
"""


@pytest.mark.timeout(30)
# Only root can become another user, and open that user's memory.
@pytest.mark.parametrize("owner", ["another user"] * (os.geteuid() == 0) + ["not sealed"])
def test_memory_of_another_user_or_that_can_shrink_is_refused(spawn, owner):
    """An owner that shrank the memory once killed its reader with SIGBUS."""
    foreign = spawn(FOREIGN, owner, stdin=True)
    pid, descriptor = map(int, foreign.line().split())
    head, part = codec.encode(np.zeros(100_000, np.uint8))
    name = [pid, descriptor, b"c" * 16, 1, raw(head), [(0, len(part))]]
    reason = r"another user \(uid 65534\)" if owner == "another user" else "not sealed"
    with pytest.raises(SharedMemoryError, match=reason):
        get(b"\xca\x07" + msgspec.msgpack.encode(name))
