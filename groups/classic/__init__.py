"""Groups whose members take part in every rebalance: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

`state` what such a group is. `requests` what may be asked and what is answered. `membership` and `rebalance` the rules, pure.
`actor` one group with its timers and waiting requests. Offsets are not here: they belong to groups of every kind.
"""
