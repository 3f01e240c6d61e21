import contextlib

import psutil
import pytest


@pytest.fixture(scope="session")
def first_ones():
    """Of processes, those that no other of them started.

    A child has its parent's command line until it runs its own.
    """

    def of(pids):
        found = []
        for pid in pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                if psutil.Process(pid).ppid() not in pids:
                    found.append(pid)
        return found

    return of
