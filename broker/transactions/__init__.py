"""The registry of transactional ids, and what their actors do to the logs of this broker: markers, ids, fences.

The rules themselves are in `coordinator`, which knows no broker.
"""
