"""Consumer groups: their members, assignments and committed offsets.

The modules here serve groups of every type: `offsets` has the committed and pending offsets of one partition of
`__consumer_offsets`, `commits` the rules for commits and fetches, `offset_requests` their values, `offset_records` their encoding
in that topic, `ledger` the log and the state that it contains, and `claims` the generations that producers have claimed.

`classic` has the state, rules, records and actor of classic groups. Another group type (KIP-848) would get a package beside it.
Two modules know the types of groups: `records`, which reads all kinds of records, and `coordinator`, which keeps all groups and
has no rules of its own.
"""
