"""Output of a running broker for its operator: log events, and metrics for Prometheus.

Not here: inspecting and changing the broker's internal state in a test, which is in `control`.
"""
