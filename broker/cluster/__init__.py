"""Several brokers in one process (`serve --nodes N`): who leads a partition and who coordinates a group or a transactional id.

Every node is a set of listeners with an id. All of them share one state: what differs is what each of them is allowed to do.
"""
