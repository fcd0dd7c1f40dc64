"""The transactional producer for asyncio: its states, error table, record batches, Produce, and requests to coordinators.

It is built on aiokafka's record builder, and on the connections of the package `connections`. The blocking twin and the error
classes are not here, but in `client/blocking` and `client/transactional_errors.py`. Applications import public names
from `stuntbroker.client`.
"""
