"""Test control of a running broker: fault injection, stops, clock, state inspection, snapshots and copies.

`rules/` has the faults and stops, `observation/` the inspection of state, `http/` and `page/` the interfaces to both. In this
folder: clock, nodes, late requests, seeded states, plans that combine them, snapshots and copies, and `control.py`, which
creates these parts for a broker.

The package is loaded only with `serve --control`. Functions that a Kafka broker has are in `broker/`.
"""
