"""Parts of the Produce handler: validation of batches, appends for clients, a fast path, and very large requests.

The format of batches is in `protocol/batches`, and writing them to files is in `storage`.
"""
