"""A client of any Kafka broker, from outside: connections, metadata, administration, transactions, and reading.

Calls block; nothing is shared between threads. It knows the protocol and nothing of our broker, so that it works against
Apache Kafka too. The command line and the pipeline use it.
"""
