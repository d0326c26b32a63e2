"""The classic module name: everything of caraml.zmq that caraml 0.10 had in `caraml.zmq.communicator`."""

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
