"""The transactional producer for asyncio: its states and errors, record batches, Produce, and requests to coordinators.

It is built on aiokafka's connections, metadata, security and record builder; request versions that aiokafka does not have
are encoded by `stuntbroker.protocol`. Applications import public names from `stuntbroker.client`.
"""
