"""A program that answers requests in its own process, and its client."""

import caraml

SERVER = """
    import sys, time, caraml
    server = caraml.ZmqServer(address=sys.argv[1], deserializer="msgpack", serializer="msgpack")
    print(server.address)
    def answer(request):
        time.sleep(request.get("sleep", 0))
        if "fail" in request:
            raise KeyError(request["fail"])
        return request["x"]
    server.start_loop(answer, blocking=True)
"""


def client(address, **options):
    return caraml.ZmqClient(address=address, serializer="msgpack", deserializer="msgpack", **options)
