"""Kafka pipelines for PySpark: an exactly-once source and sink, and the audit of a data folder's transactions.

`spark/` speaks to Spark, `audit/` reads data folders, `report/` makes a page of an audit. The modules beside them are the
parts that need no Spark: who decides on a transaction, recovery, and encoding and decoding of records in columns. It talks
to brokers through `client` only, and does not know ours.
"""
