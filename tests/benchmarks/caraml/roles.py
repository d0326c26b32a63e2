"""What one process of one measurement does: run.py starts it as `roles.py SIDE ROLE JSON`, one side a
process.

The sides are `ours`, `raw` (pyzmq alone) and `original` (caraml 0.10.0, found first on PYTHONPATH). A role
prints `ready`, reads a line to start if it produces, and prints its figure.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import zmq


def payload(name):
    """The values of the measurements, and as many bytes as they have."""
    small = {"r": np.ones((), np.float32), "d": np.ones(1, np.bool_), "a": np.ones(2, np.int64)}
    small |= {"p": np.ones(3, np.float32), "q": np.ones(3, np.float32)}
    if name.startswith("bytes"):
        return b"x" * int(name[5:])
    if name == "text":
        return "x" * 16
    if name == "json":
        return {"step": 12, "reward": 1.5, "done": False, "name": "agent-3"}
    shape = {"tiny": None, "step": (84, 84, 4), "batch": (64, 84, 84, 4)}.get(name)
    if name == "params":
        return {f"layer{n}": np.ones((1 << 10, 830), np.float32) for n in range(5)}
    return small if shape is None else {**small, "q": np.ones(shape, np.uint8)}


def bytes_of(value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if all(isinstance(item, np.ndarray) for item in value.values()):
        # written memory: zeros would all be the kernel's one zero page, read from the cache
        return b"x" * sum(item.nbytes for item in value.values())
    return json.dumps(value).encode()


def touch(array):
    return int(array.reshape(-1).view(np.uint8)[::4096].sum())


def say(word):
    print(word, flush=True)


def started():
    say("ready")
    sys.stdin.readline()


def raw_socket(mode, o, bind):
    socket = zmq.Context.instance().socket(mode)
    if o.get("hwm") is not None:
        socket.set_hwm(o["hwm"])
    if o.get("keys"):

        def key(name):
            return (Path(o["keys"]) / name).read_text().encode()

        if bind:
            socket.curve_server, socket.curve_secretkey = True, key("server.secret")
        else:
            socket.curve_serverkey = key("server.public")
            socket.curve_publickey, socket.curve_secretkey = key("client.public"), key("client.secret")
    (socket.bind if bind else socket.connect)(o["address"])
    return socket


def options(side, o, **more):
    given = {"address": o["address"], **more}
    if o.get("hwm") is not None:
        given["hwm"] = o["hwm"]
    if side == "ours" and o.get("keys"):
        given["keys"] = o["keys"]
    if side == "original":
        given["verbose"] = False
    return given


def timed(receive, count):
    say("ready")
    receive()
    begin = time.perf_counter()
    for _ in range(count):
        receive()
    say((time.perf_counter() - begin) / count)


def push(side, o):
    value = payload(o["payload"])
    count = o["count"] + 1
    if side == "raw":
        socket, data = raw_socket(zmq.PUSH, o, False), bytes_of(value)
        copy = len(data) < 1 << 18
        started()
        for _ in range(count):
            socket.send(data, copy=copy)
    else:
        import caraml.zmq as z

        pusher = z.ZmqPusher(serializer=o["serializer"][side], **options(side, o))
        send = pusher.push_uncopied if o.get("uncopied") and side == "ours" else pusher.push
        started()
        if o.get("many") and side == "ours":
            items = [value] * o["many"]
            for _ in range(0, count + o["many"], o["many"]):
                pusher.push_many(items)
        else:
            for _ in range(count):
                send(value)
    sys.stdin.readline()


def pull(side, o):
    if side == "raw":
        socket = raw_socket(zmq.PULL, o, True)
        copy = len(bytes_of(payload(o["payload"]))) < 1 << 18
        timed(lambda: socket.recv(copy=copy), o["count"])
    else:
        import caraml.zmq as z

        puller = z.ZmqPuller(deserializer=o["serializer"][side], **options(side, o))
        if o.get("many") and side == "ours":
            pulled = o["many"]
            say("ready")
            puller.pull_many()
            begin, count = time.perf_counter(), 0
            while count < o["count"] - pulled:
                count += len(puller.pull_many())
            say((time.perf_counter() - begin) / count)
        else:
            timed(puller.pull, o["count"])


def serve(side, o):
    if side == "raw":
        socket = raw_socket(zmq.REP, o, True)
        say("ready")
        copy = len(bytes_of(payload(o["payload"]))) < 1 << 18
        while True:
            socket.recv(copy=copy)
            socket.send(b"y" * 16)
    import caraml.zmq as z

    server = z.ZmqServer(deserializer=o["serializer"][side], serializer=None, **options(side, o))
    say("ready")
    while True:
        server.recv()
        server.send(b"y" * 16)


def ask(side, o):
    value = payload(o["payload"])
    if side == "raw":
        socket, data = raw_socket(zmq.REQ, o, False), bytes_of(value)
        copy = len(data) < 1 << 18

        def request():
            socket.send(data, copy=copy)
            socket.recv()
    else:
        import caraml.zmq as z

        timeout = {"timeout": o["timeout"]} if "timeout" in o else {}
        client = z.ZmqClient(serializer=o["serializer"][side], **options(side, o, **timeout))

        def request():
            client.request(value)

    started()
    for _ in range(max(1, o["count"] // 10)):
        request()
    begin = time.perf_counter()
    for _ in range(o["count"]):
        request()
    say((time.perf_counter() - begin) / o["count"])
    sys.stdin.readline()


def send(side, o):
    import caraml.zmq as z

    sender, data = z.ZmqSender(**options(side, o)), payload(o["payload"])
    started()
    for _ in range(o["count"] + 1):
        sender.send(data)
    if side == "ours":
        sender.flush()
    sys.stdin.readline()


def receive(side, o):
    import caraml.zmq as z

    receiver = z.ZmqReceiver(**options(side, o))
    timed(receiver.recv, o["count"])
    if side == "ours":
        receiver.close()


def publish(side, o):
    data: Any = payload(o["payload"])
    if side == "raw":
        socket = raw_socket(zmq.PUB, o, True)
        framed = b"t" + data
        started()
        for _ in range(o["count"] + 1):
            socket.send(framed)
    else:
        import caraml.zmq as z

        publisher = z.ZmqPub(**options(side, o))
        started()
        for _ in range(o["count"] + 1):
            publisher.pub("t", data)
    sys.stdin.readline()


def subscribe(side, o):
    if side == "raw":
        socket = zmq.Context.instance().socket(zmq.SUB)
        socket.set_hwm(0)
        socket.subscribe(b"t")
        socket.connect(o["address"])
        timed(socket.recv, o["count"])
    else:
        import caraml.zmq as z

        timed(z.ZmqSub(topic="t", **options(side, o)).recv, o["count"])


TOKEN = b"x" * 64


def hand_over(side, o):
    """The producer: one value at a time, its token answered when the consumer touched every page.

    Raw in place is the floor: a token there and back, and as many pages of the consumer's own.
    """
    array = np.ones(o["nbytes"], np.uint8)
    socket = zmq.Context.instance().socket(zmq.PAIR)
    socket.connect(o["address"])
    if side == "ours":
        from caraml.inmemory import SharedPool

        pool = SharedPool()

        def once():
            value = pool.empty(o["nbytes"], np.uint8) if o.get("in_place") else array
            token = pool.put(value)
            del value
            socket.send(token)
            socket.recv()
    elif side == "original":
        from caraml.inmemory import inmem_dump

        def once():
            socket.send(inmem_dump(array))
            socket.recv()
    elif o.get("in_place"):

        def once():
            socket.send(TOKEN)
            socket.recv()
    else:

        def once():
            socket.send(array, copy=False)
            socket.recv()

    started()
    for _ in range(5):
        once()
    times = []
    for _ in range(o["count"]):
        begin = time.perf_counter()
        once()
        times.append(time.perf_counter() - begin)
    say(sum(times) / len(times))
    sys.stdin.readline()


def take_over(side, o):
    own = np.ones(o["nbytes"], np.uint8)
    socket = zmq.Context.instance().socket(zmq.PAIR)
    socket.bind(o["address"])
    say("ready")
    while True:
        frame = socket.recv(copy=False)
        if side == "ours":
            from caraml.inmemory import get

            with get(frame.bytes) as array:
                touch(array)
            del array
        elif side == "original":
            import pyarrow  # pyright: ignore[reportMissingImports]

            name = frame.bytes.decode()
            with pyarrow.memory_map(name) as file:
                touch(np.frombuffer(file.read_buffer(), np.uint8))
            Path(name).unlink()
        else:
            touch(own if o.get("in_place") else np.frombuffer(frame, np.uint8))
        del frame
        socket.send(b"")


def growth(call, nbytes):
    """What memory grew by at most during `call`, by `nbytes`; all of it: Python's, numpy's and ZeroMQ's."""

    def resident(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

    Path("/proc/self/clear_refs").write_text("5")  # the peak, VmHWM, starts over
    before = resident("VmRSS")
    kept = call()
    grown = resident("VmHWM") - before
    del kept
    return grown / nbytes


def push_watched(side, o):
    import caraml.zmq as z

    pusher = z.ZmqPusher(serializer="msgpack", **options(side, o))
    value = {"a": np.ones(o["nbytes"], np.uint8)}
    pusher.push({"a": np.ones(1 << 17, np.uint8)})
    started()
    say(growth(lambda: pusher.push_uncopied(value).wait(30), o["nbytes"]))
    sys.stdin.readline()


def pull_watched(side, o):
    import caraml.zmq as z

    puller = z.ZmqPuller(deserializer="msgpack", **options(side, o))
    say("ready")
    puller.pull()

    def pull():
        say("watching")
        value = puller.pull()
        touch(value["a"])
        return value

    say(growth(pull, o["nbytes"]))
    sys.stdin.readline()


def look(side, o):
    """Reads what the names it is told say, and writes into it."""
    from caraml.inmemory import get

    def read(word):
        with get(bytes.fromhex(word)) as array:
            touch(array)
            array[-1] = 7

    say("ready")
    while word := sys.stdin.readline().strip():
        say(growth(lambda word=word: read(word), o["nbytes"]))


if __name__ == "__main__":
    globals()[sys.argv[2]](sys.argv[1], json.loads(sys.argv[3]))
