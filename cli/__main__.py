"""The command `stuntbroker`, `python -m stuntbroker` and `python -m stuntbroker.cli`.

Everything else is in modules that are compiled once.
"""

import gc
import os
import signal
import sys

INTERRUPTED = 130
"""Exit status that shells report for a command that was ended by Ctrl-C."""


def main() -> int:
    """Run the command line; return the exit status."""
    try:
        if os.getpid() == 1:  # Process 1 of a container ignores SIGTERM unless it has a handler.
            signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        gc.disable()  # The start creates no garbage; the server enables collection when it is ready.
        from stuntbroker.cli.main import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
