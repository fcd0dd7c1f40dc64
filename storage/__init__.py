"""Records in files: segments and their indexes, the log of a partition, recovery, compaction, and the data folder.

`PartitionLog` is what others append to and read from; `DataDir` opens and closes a folder of them. A log checks producers'
sequence numbers and keeps open transactions, because recovery needs both. Not here: who may write, and when.
"""
