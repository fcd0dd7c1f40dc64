"""What a test sees of a broker: its state, its last requests, why producers were fenced, and whether promises were kept.

Nothing here changes a broker.
"""
