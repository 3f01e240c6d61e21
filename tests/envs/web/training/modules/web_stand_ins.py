"""An action space and a judge with which a model that knows nothing exercises everything."""

from hashlib import blake2b

from mintact_platform import Verdict
from mintact_platform.actions.space import Call
from mintact_platform.actions.ui import BrowserUse


def draw(text):
    return blake2b(text.encode(), digest_size=4).digest()


class AnyBrowser(BrowserUse):
    """Any text becomes a click where its hash says, or the end."""

    def parse(self, text, tools=()):
        where = draw(text)
        if where[0] < 48:
            return (Call("browser_use", {"action": "stop", "response": "done"}, ends=True),)
        place = [3.9 * where[1], 3.9 * where[2]]
        return (Call("browser_use", {"action": "click", "coordinate": [int(n) for n in place]}),)


async def coin(task, view):
    """Needs the site's own check; success by a coin, so that groups differ."""
    if view.state_check is None:
        return Verdict("environment_failure", reason="no state check")
    success = draw(view.trajectory.id)[0] % 2
    return Verdict("success" if success else "failure", reward=float(success))
