"""Metadata of the cluster: topics, features and quotas, and their image, which is built from the journal.

The journal file is in `storage`; nodes and partition leaders are in `broker/cluster`.
"""
