"""Kafka pipelines for PySpark: an exactly-once source and sink, and the audit of a data folder's transactions.

`spark/` is the Spark data source, `audit/` reads data folders, and `report/` renders an audit as an HTML page. The other
modules need no Spark: commit decisions, recovery of transactions, and encoding and decoding records as columns. The package
uses brokers only through `client` and depends on nothing that is specific to Stuntbroker.
"""
