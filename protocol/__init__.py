"""Kafka's wire protocol: bytes to messages and back, record batches, error codes. No input or output.

`messages/` is generated: one module per message, for all its versions. `primitives` reads and writes the types of their fields.
`batches/` reads, checks and builds record batches. What a request does is decided elsewhere.
"""
