"""Record batches of format v2: the bytes of their headers and records, and everything that looks into them.

`records` builds and reads them, `check` decides what a client's batch must be before it is stored, `walk` reads the records
of a batch that is not trusted, `compression` opens and makes payloads within a limit, and `budget` bounds what one request
may cause of all that. Batches in columns, for Spark and the audit, are in `pipeline`.
"""
