"""Running what plugins bring within a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

STOPPED = """
import os, signal, time
from mintact_platform.registry.guard import Airlock

class Stopped:
    what, package = "piece", "acme"

    def __call__(self):
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.3)
        return "whole"

print(Airlock(3.0).run([Stopped()])[0].result)
"""


def test_time_in_which_the_process_stood_still_counts_against_nobody():
    command = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(3.3)  # longer than the limit
        process.send_signal(signal.SIGCONT)
        told, _ = process.communicate(timeout=60)
    assert told == "whole\n"
