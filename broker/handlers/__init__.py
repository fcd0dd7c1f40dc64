"""One module for each API, `kNN_name.py` by its key, loaded when the API is first used.

A module has `handle(connection, request, version)`, and may have a `decode` of its own. It checks the request as Kafka does,
asks the room that owns the rule, and translates the answer to the error codes of the version. It holds no state: that
belongs to the broker's objects.
"""
