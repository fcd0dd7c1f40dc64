"""Consumer groups: who is a member, who reads what, and how far each group has come.

`state` what a group is. `requests` what may be asked and what is answered. `membership` and `commits` the
rules, pure. `offsets` committed and pending offsets of one partition of `__consumer_offsets`. `records` bytes
of that topic. `ledger` the log, and what it comes to. `actor` one group with its timers and waiting requests.
`coordinator` the only object that others call: it keeps groups, timers and waiting replies,
and has no rules of its own.

Classic groups only. A group of another kind (KIP-848) gets its own state and rules beside these; the log, the
offsets and the coordinator stay.
"""
