"""Observation of a broker by a test: its state, its last requests, causes of fencing, and checks of transaction guarantees.

This package never changes a broker.
"""
