"""`python -m elastiqueue`."""

import sys

from elastiqueue.cli.main import main

sys.exit(main())
