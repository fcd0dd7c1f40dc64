"""Commands that speak to a broker, ours or Apache Kafka's: topics, groups, records, configurations, transactions, control.

What a command does to a cluster is in `client`; here are its words, its output and its exit status.
"""
