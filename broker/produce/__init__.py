"""What Produce needs beside its handler: checks of batches, appends for clients, its common and its very large requests.

How a batch gets into a file is told in `storage`, and what a batch is in `protocol/batches`.
"""
