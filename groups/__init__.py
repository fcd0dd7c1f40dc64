"""Consumer groups: their members, assignments and committed offsets.

The modules here serve groups of every type: `offsets` has the committed and pending offsets of one partition of
`__consumer_offsets`, `commits` the rules for commits and fetches, `offset_requests` their values, `records` the encoding of that
topic, `ledger` the log and the state that it contains, and `claims` the generations that producers have claimed. Other packages
use only `coordinator`, which keeps all groups and has no rules of its own.

`classic` has the state, rules and actor of classic groups. Another group type (KIP-848) would get a package beside it.
"""
