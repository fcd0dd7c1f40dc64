"""Speaks to any Kafka broker, from the outside: blocking sockets, one connection a broker, nothing shared between threads."""
