"""Listeners and client connections: sockets, frames, and the limit on the memory of large requests.

Each complete frame is passed to the router in `broker/requests`. Nothing here depends on the content of a request.
"""
