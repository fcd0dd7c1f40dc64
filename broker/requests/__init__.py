"""Request handling that all APIs share: the table of APIs, the router, interceptors, permissions, and long requests.

Code for a single API is in `broker/handlers`; codecs are in `protocol`.
"""
