"""`python -m stuntbroker`: the command line."""

import sys

from stuntbroker.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
