"""Publish and subscribe: ZmqPub and ZmqSub."""
