"""Listeners and the connections that come by them: sockets, frames, and the memory that large requests may take.

A frame that is whole goes to the router in `broker/requests`. Nothing here knows what a request is about.
"""
