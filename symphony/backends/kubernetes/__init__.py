"""Experiments as pods and services: expansion, observation and client, in files of their own."""
