"""Record batches of format v2: building, reading, validation and compression.

`records` builds and reads batches, `check` validates a client's batch before it is stored, `walk` reads the records of an
untrusted batch, `compression` compresses payloads and decompresses them within a limit, and `budget` limits the work that
one request may cause. Batches in columns, for Spark and the audit, are in `pipeline`.
"""
