"""What holds for all tests, and for the commands that they start."""

import os

# a slow machine's lines about long work would stand among the lines that tests count
os.environ["ERRAND_PROGRESS_S"] = "3600"
