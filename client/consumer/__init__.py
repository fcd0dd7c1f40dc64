"""The transactional consumer for asyncio, on aiokafka's: membership for fencing, stable offsets, and errors by what to do.

Fetching, assignments and heartbeats are aiokafka's. Applications import public names from `stuntbroker.client`.
"""
