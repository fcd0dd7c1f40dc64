"""The way of a request to its handler: which APIs are served, the router, interceptors, permissions, and long requests.

What belongs to one API alone is in `broker/handlers`; bytes and codecs are in `protocol`.
"""
