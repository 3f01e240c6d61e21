"""An environment that cannot even be imported: it never ends."""

import threading

threading.Event().wait()
