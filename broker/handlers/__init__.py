"""One module for each API, `kNN_name.py` by its key, loaded when the API is first used.

A module has `handle(request, body, version)`, and may have its own `decode`. It checks the request as Kafka does, calls
the package that implements the rule, and translates the result to the error codes of the version. It holds no state: state
belongs to the objects of the broker.
"""
