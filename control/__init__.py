"""What a test may do to a running broker, and see of it: its clock, its faults, its last requests, its state; over HTTP.

The rules of faults are pure (`faults.py`); `injector.py` carries them out between router and handlers, as an interceptor.
Nothing here is loaded without `serve --control`. What Kafka itself can do has no place here: that is `broker/`.
"""
