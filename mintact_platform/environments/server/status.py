"""What a server says about itself: how full it is, what it serves, how well that does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from mintact_platform.environments.protocol.messages import CreateRequest
from mintact_platform.environments.server.service import LeaseService


def overview(service: LeaseService) -> dict[str, Any]:
    """Each environment with its leases, spares and health, and the server as a whole."""
    now, leases, spares = time.monotonic(), _leases(service), service.boots.spares.count()
    held = service.boots.quarantine.held()
    names = dict.fromkeys((*service.catalogue.names(), *sorted(leases), *sorted(held)))
    served = {}
    for name in names:
        succeeded = service.metrics.last_success.get(name)
        served[name] = {
            **service.catalogue.described(name),
            "leases": leases[name],
            "spares": spares[name],
            "quarantined": held.get(name, 0),
            "last_success_s": None if succeeded is None else round(now - succeeded, 3),
        }
    return {
        "environments": served,
        "leases": len(service.table),
        "capacity": service.capacity,
        "free": service.capacity - len(service.table),
        "spares": spares.total(),
        "containment": service.containment.isolation,
    }


def gauges(service: LeaseService) -> dict[str, float | Mapping[str, float]]:
    """The values that hold right now, for `/metrics`."""
    now = time.monotonic()
    return {
        "leases": len(service.table),
        "capacity": service.capacity,
        "workers": len(service.workers),
        "instances": service.workers.instances(),
        "spares": service.boots.spares.count().total(),
        "quarantined": sum(service.boots.quarantine.held().values()),
        "undeleted_directories": service.workers.undeleted,
        "stream_connections": service.metrics.stream_connections,
        "last_success_age_seconds": {
            name: now - moment for name, moment in service.metrics.last_success.items()
        },
    }


def _leases(service: LeaseService) -> Counter[str]:
    requests = (record.request for record in service.table)
    return Counter(r.environment for r in requests if isinstance(r, CreateRequest))
