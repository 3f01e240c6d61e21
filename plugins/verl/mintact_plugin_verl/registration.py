"""What verl imports: puts every objective and advantage of ours into verl's registries.

verl finds this module through the entry-point group `verl.plugins` (0.9 and later) or through
`VERL_USE_EXTERNAL_MODULES=mintact_plugin_verl.registration`. Both only import it, so that the
import itself has to register.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from verl.trainer.ppo.core_algos import agg_loss, register_adv_est, register_policy_loss

from mintact_platform.errors import MintactError
from mintact_platform.registry.names import Registry
from mintact_plugin_verl.advantages import Estimator
from mintact_plugin_verl.losses import PolicyLoss, refusing
from mintact_plugin_verl.representable import refusal, verl_name

_LOG = logging.getLogger(__name__)


def register(registry: Registry) -> None:
    """Register everything under `mintact_<name>`.

    What cannot be represented, or cannot be imported, is registered as well: used, it raises one
    line that says why, where verl would only say that there is no such loss.
    """
    for name in registry.names("objectives"):
        register_policy_loss(verl_name(name))(_loss(registry, name))
    for name in registry.names("advantages"):
        register_adv_est(verl_name(name))(_estimator(registry, name))


def _loss(registry: Registry, name: str) -> Callable[..., Any]:
    try:
        function = registry.get("objectives", name)
    except MintactError as error:
        return refusing(error)
    refused = refusal(name, function)
    return PolicyLoss(name, function, agg_loss) if refused is None else refusing(refused)


def _estimator(registry: Registry, name: str) -> Callable[..., Any]:
    try:
        return Estimator(name, registry.get("advantages", name))
    except MintactError as error:
        return refusing(error)


try:
    register(Registry.discover())
except Exception:
    # verl notes a plugin's failure at debug level only, and would then know no loss of ours
    _LOG.exception("mintact's objectives could not be registered with verl")
    raise
