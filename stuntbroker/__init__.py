"""A stunt double for a Kafka broker.

The rooms, each a folder at the root of the project and a package here:

    protocol      bytes <-> messages, record batches, error codes; no I/O
    storage       records <-> files
    coordinator   what a transaction may do: pure rules, and an actor per transactional id
    groups        consumer groups and their offsets, built the same way
    broker        the only room with sockets, clocks and tasks
"""
