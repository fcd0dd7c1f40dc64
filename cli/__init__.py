"""The command line: `stuntbroker serve`, `wait`, `txn`, `dump`, `audit`.

Arguments are checked here, and results are printed here. What the commands do is in the rooms that they call.
"""
