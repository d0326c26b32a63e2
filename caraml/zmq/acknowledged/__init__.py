"""Acknowledged delivery: ZmqSender and ZmqReceiver."""
