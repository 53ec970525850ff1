"""`python -m readtorch.literate` is `readtorch`."""

import sys

from readtorch.literate.cli import main

if __name__ == "__main__":
    sys.exit(main())
