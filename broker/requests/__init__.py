"""Request handling that all APIs share: the table of APIs, the router, interceptors, and long requests.

Code for a single API is in `broker/handlers`, and its permissions in `broker/permissions`; codecs are in `protocol`.
"""
