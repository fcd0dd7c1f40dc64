"""Kafka's wire protocol: bytes to messages and back, record batches, error codes. No input or output.

`messages/` is generated, one module a message for all its versions, and `primitives` are what they are made of. `batches/` is
about record batches. Not here: what a request does.
"""
