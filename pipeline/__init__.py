"""Kafka pipelines for PySpark: an exactly-once sink, and the audit of transaction logs."""
