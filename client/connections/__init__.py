"""Connections of the transactional clients to the brokers of a cluster.

They are aiokafka's connections, with its metadata and security; request versions that aiokafka does not have are encoded by
`stuntbroker.protocol`. This package knows nothing of transactions, but for the errors that it raises.
"""
