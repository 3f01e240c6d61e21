"""An environment that ends the process which imports it."""

import sys

sys.exit("no licence")
