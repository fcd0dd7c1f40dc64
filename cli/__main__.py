"""`python -m stuntbroker.cli`, and the command `stuntbroker`: everything else is in modules that are compiled once."""

import gc
import sys


def main() -> int:
    gc.disable()  # Nothing that is made while starting is garbage; the server turns it on again when it is ready.
    from stuntbroker.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
