"""The audit: a data folder of a stopped broker, ours or Apache Kafka's, as Arrow tables and findings over them."""
