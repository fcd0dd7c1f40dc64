"""Several brokers in one process (`serve --nodes N`): partition leaders, and coordinators of groups and transactional ids.

A node is an id with a set of listeners. All nodes share one state, and each of them serves only its own part: the partitions
that it leads, and the groups and transactional ids that it coordinates. Topics and other metadata are not here, but in
`broker/metadata`.
"""
