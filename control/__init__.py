"""What a test may do to a running broker, and see of it.

`rules/` has what goes wrong and where it stops, `observation/` what is seen, `http/` and `page/` how both are reached. In this
folder: time, nodes, late requests, states that are brought about, plans of all this, snapshots and copies, and `control.py`,
which puts it together.

Nothing of it is loaded without `serve --control`. What Kafka itself can do has no place here: that is `broker/`.
"""
