"""Greets the server once a second; stacks/hello.py runs it as the processes `ada` and `grace`."""

import os
import sys
import time

import zmq

socket = zmq.Context().socket(zmq.REQ)
socket.connect(f"tcp://{os.environ['SYMPH_GREETINGS_ADDR']}")
while True:
    socket.send_string(sys.argv[1])
    print(f"the server answered: {socket.recv_string()}")
    time.sleep(1)
