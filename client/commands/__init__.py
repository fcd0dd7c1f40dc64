"""Client of the command line, and of the pipeline's source and recovery: a blocking call for each operation.

`Cluster` has one plain socket for each broker (`connection`), so that a command starts without asyncio and aiokafka, whose
import takes longer than most commands. The other modules have one kind of operation each: topics, groups, offsets,
transactions, records. Applications use the transactional producer and consumer instead (packages `producer`, `consumer`).
"""
