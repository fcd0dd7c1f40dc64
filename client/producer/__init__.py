"""The transactional producer for asyncio: its states, error table, record batches, Produce, and requests to coordinators.

It is built on aiokafka's record builder, and on the connections of the package `connections`. Applications import public names
from `stuntbroker.client`.
"""
