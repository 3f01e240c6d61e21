"""An environment whose worker never gets ready; the server itself imports it quickly."""

import sys
import threading

from soak_envs import Isolated as Isolated

if not sys.modules["__main__"].__spec__.name.endswith("server"):
    threading.Event().wait()
