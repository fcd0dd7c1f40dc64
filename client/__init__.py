"""Speaks to any Kafka broker, from the outside: calls block, one connection a broker, nothing shared between threads."""
