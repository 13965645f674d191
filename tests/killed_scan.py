"""What a test starts to kill it: a scan that is ended by SIGKILL as soon as it has noted progress.

python tests/killed_scan.py ARGUMENTS
"""

from __future__ import annotations

import os
import signal
import sys

from commands import josrc
from josrc.data.feature_file import FeatureWriter
from josrc.runs import features

if __name__ == "__main__":
    features.SAVED_EVERY = 0.0
    save = FeatureWriter.save

    def save_and_die(writer: FeatureWriter, done: int) -> None:
        save(writer, done)
        os.kill(os.getpid(), signal.SIGKILL)

    FeatureWriter.save = save_and_die  # type: ignore[method-assign]
    josrc("scan", *sys.argv[1:])
