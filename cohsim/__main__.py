"""``python -m cohsim`` is the ``cohsim`` command."""
import sys

from cohsim.cli.main import main

sys.exit(main())
