"""The registry of transactional ids, and the ports of their actors to this broker: markers, producer ids, fences.

The rules of transactions are in `coordinator`, which does not depend on the broker.
"""
