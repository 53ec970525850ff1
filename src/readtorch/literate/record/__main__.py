"""`python -m readtorch.literate.record`."""

import sys

from readtorch.literate.cli import main

sys.exit(main(["record", *sys.argv[1:]]))
