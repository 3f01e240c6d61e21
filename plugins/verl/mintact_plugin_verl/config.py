"""verl's section of a policy loss, with room for the parameters of an objective of ours.

verl builds its sections from the class that `_target_` names and refuses keys which that class does
not have. Imported by verl only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from verl.workers.config import PolicyLossConfig as _Base


@dataclass
class PolicyLossConfig(_Base):  # type: ignore[misc]  # verl is not installed where types are checked
    """What verl knows of a policy loss, and `mintact`: the objective's own parameters.

    Attributes:
        mintact: keyword-only arguments of the objective that `loss_mode` names.
    """

    mintact: dict[str, Any] = field(default_factory=dict)
