"""Groups whose members take part in every rebalance: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

`state` has the state of a group, `requests` the requests and replies, `membership` and `rebalance` the rules (pure functions),
`actor` one group with its timers and waiting requests. Offsets are in `groups`, because all group types share them.
"""
