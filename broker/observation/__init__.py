"""What a broker tells of itself: events for its log, and metrics for Prometheus.

What a test may see of its inside, and change, is in `control`.
"""
