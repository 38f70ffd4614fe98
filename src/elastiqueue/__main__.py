"""`python -m elastiqueue`."""

import sys

from elastiqueue.cli import main

sys.exit(main())
