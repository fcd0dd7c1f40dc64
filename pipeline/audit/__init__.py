"""Audit the data folder of a stopped broker (Stuntbroker or Apache Kafka): Arrow tables of its contents, and findings.

The audit only reads files; one process, or one Spark task each, handles a share of the partitions. `report/` and the command
line present the result.
"""
