"""The transactional consumer for asyncio.

It extends aiokafka's consumer with group metadata for fencing, stable offsets, and errors whose class says what the
application does next.

Fetching, assignments and heartbeats are aiokafka's. Applications import public names from `stuntbroker.client`.
"""
