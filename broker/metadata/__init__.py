"""Metadata of the cluster, such as topics and ACLs, and their image (`image.Image`), which is built from the journal.

The journal file is in `storage`; nodes and partition leaders are in `broker/cluster`.
"""
