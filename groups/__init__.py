"""Consumer groups: who is a member, who reads what, and how far each group has come.

What groups of every kind share is here: `offsets` committed and pending offsets of one partition of `__consumer_offsets`,
`commits` the rules of who may commit and fetch them, `offset_requests` what is asked of them, `records` bytes of that topic,
`ledger` the log, and what it comes to, `claims` the generations that have spoken. `coordinator` is the only object that others
call: it keeps groups, and has no rules of its own.

`classic` is one kind of group with its state, rules and actor. A group of another kind (KIP-848) gets a package beside it.
"""
