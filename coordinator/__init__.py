"""Transaction coordinator: the rules of a transaction, its actor, and its records in the transaction log.

`state` and `machine` are pure: they decide from a state, a request and a time. `actor` performs the decisions through ports that
the broker implements. Nothing here knows sockets, files or clocks.
"""
