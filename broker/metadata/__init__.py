"""Topics and what else a cluster has agreed on: features and quotas, and the image of the journal they are kept in.

The journal as a file is in `storage`; nodes and leaders of partitions are in `broker/cluster`.
"""
