"""`stuntbroker serve` and `fork-server`: a broker's configuration from command line, files and environment, and its process.

The broker itself is in `broker`.
"""
