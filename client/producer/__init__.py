"""The transactional producer for asyncio: its states and errors, record batches, Produce, and requests to coordinators.

It stands on aiokafka's connections, metadata, security and record builder; request versions that aiokafka does not have
are encoded by `stuntbroker.protocol`. What applications import is named in `stuntbroker.client`. The blocking client of
the command line is in the folder above.
"""
