"""Records in files: segments and their indexes, the log of a partition, recovery, compaction, and the data folder.

Other packages append to a `PartitionLog` and read from it; `DataDir` opens and closes a folder of them. A log checks
producers' sequence numbers and tracks open transactions, because recovery needs both. The broker decides who may write.
"""
