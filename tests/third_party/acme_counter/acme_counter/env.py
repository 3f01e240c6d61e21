"""A phone with one counter: tap until it shows the goal, then terminate."""

import gymnasium as gym
import numpy as np

from mintact_platform import StateCheck


class Counter(gym.Env):
    metadata = {"mintact": {"domain": "mobile", "action_space": "mobile_use"}}

    def __init__(self, *, shade: int = 25):
        self.shade = shade

    def reset(self, *, seed=None, options=None):
        self.goal, self.taps = options["task"]["params"]["goal"], 0
        return self.screen(), {}

    def step(self, action):
        name = action["arguments"].get("action")
        self.taps += name == "click"
        return self.screen(), 0.0, name == "terminate", False, {}

    def evaluate(self):
        return StateCheck(success=self.taps == self.goal, score=float(self.taps == self.goal))

    def screen(self):
        return {"screenshot": np.full((64, 64, 3), self.taps * self.shade % 256, np.uint8)}
