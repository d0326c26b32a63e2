"""Answers every greeting; stacks/hello.py runs it as the process `server`."""

import os

import zmq

socket = zmq.Context().socket(zmq.REP)
# symphony chooses the port and sets it in the environment of every process of the experiment.
socket.bind(f"tcp://{os.environ['SYMPH_GREETINGS_BIND']}:{os.environ['SYMPH_GREETINGS_PORT']}")
print("at your service")
while True:
    name = socket.recv_string()
    print(f"{name} says hello")
    socket.send_string(f"hello, {name}!")
