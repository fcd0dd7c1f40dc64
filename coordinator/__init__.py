"""Transaction coordinator: the rules of a transaction, its actor, and its records in the transaction log.

`state` and `machine` are pure: a decision depends only on a state, a request and a context. `actor` performs the decisions
through ports that the broker implements. Nothing in this package uses sockets, files or clocks.
"""
