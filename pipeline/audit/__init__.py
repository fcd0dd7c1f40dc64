"""The audit: the data folder of a stopped broker, ours or Apache Kafka's, as Arrow tables and findings over them.

It reads files and nothing else, one process or one Spark task a share of the partitions. How the result is shown is in
`report/` and in the command line.
"""
