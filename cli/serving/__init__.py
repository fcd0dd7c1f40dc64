"""`stuntbroker serve` and `fork-server`: what the command line, files and the environment say to a broker, and its process.

The broker itself is in `broker`.
"""
