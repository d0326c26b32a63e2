"""Exports the names that the module `caraml.zmq.communicator` of caraml 0.10 had."""

from caraml.errors import ZmqTimeoutError as ZmqTimeoutError
from caraml.transport.socket import ZmqSocket as ZmqSocket
from caraml.zmq.acknowledged.receiver import ZmqReceiver as ZmqReceiver
from caraml.zmq.acknowledged.sender import ZmqSender as ZmqSender
from caraml.zmq.pubsub.publisher import ZmqPub as ZmqPub
from caraml.zmq.pubsub.subscriber import ZmqSub as ZmqSub
from caraml.zmq.push_pull import ZmqPuller as ZmqPuller
from caraml.zmq.push_pull import ZmqPusher as ZmqPusher
from caraml.zmq.request_reply import ZmqClient as ZmqClient
from caraml.zmq.request_reply import ZmqServer as ZmqServer
