"""Commands that talk to a broker, ours or Apache Kafka's: topics, groups, records, configurations, transactions, control.

`client` sends the requests; this package has the arguments, the output and the exit status of the commands.
"""
