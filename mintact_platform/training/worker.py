"""The trainer's own process: finds the trainer by name and answers one call at a time.

Started by `training.process`; ends with its parent, or when the socket closes.
"""

from __future__ import annotations

import faulthandler
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mintact_platform import processes
from mintact_platform.errors import MintactError, TrainerError
from mintact_platform.registry.guard import import_in_place
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind
from mintact_platform.training import frames
from mintact_platform.training.trainer import Trainer


class Session:
    """The calls a scheduler can make, by name."""

    def __init__(self) -> None:
        self._trainer: Trainer | None = None

    @property
    def trainer(self) -> Trainer:
        """The started trainer.

        Raises:
            TrainerError: before `start`.
        """
        if self._trainer is None:
            raise TrainerError("is not started", where="trainer")
        return self._trainer

    def start(
        self,
        name: str,
        params: Mapping[str, Any],
        spec: Mapping[str, Any],
        versions: Mapping[str, str],
        required: Sequence[str] = (),
    ) -> None:
        """Compare plugin versions, build the trainer by name, start it."""
        registry = Registry.discover()
        check_versions(versions, registry.versions())
        registry.require(required, where="trainer process: required_plugins")
        build = bind(registry.get("trainers", name), params, where=f"trainer {name!r}")
        trainer: Trainer = build()
        trainer.start(frames.trainer_spec(spec))
        self._trainer = trainer

    def step(self, request: Mapping[str, Any]) -> Any:
        """One batch."""
        return self.trainer.step(frames.step_request(request))

    def compare(self, request: Mapping[str, Any], objective: Mapping[str, Any]) -> Any:
        """One batch, with another loss measured beside the trainer's own."""
        compare = getattr(self.trainer, "compare", None)
        if compare is None:
            raise TrainerError(
                f"{type(self.trainer).__name__} cannot measure a second loss",
                where="trainer compare",
                next="replay with a trainer that has `compare`, e.g. torch",
            )
        return compare(frames.step_request(request), objective)

    def supervised(self, request: Mapping[str, Any]) -> Any:
        """One cross-entropy step."""
        return self.trainer.supervised(frames.supervised_request(request))

    def score(self, path: str, temperature: float, noise: float) -> Any:
        """Log-probabilities of a stored trajectory."""
        return self.trainer.score(path, temperature=temperature, noise=noise)

    def export(self, version: int, path: str, noise: float) -> None:
        """Write weights."""
        self.trainer.export(version, path, noise=noise)

    def confirm(self, version: int) -> None:
        """All servers serve the version."""
        self.trainer.confirm(version)

    def save(self, path: str, step: int) -> None:
        """Write a checkpoint."""
        self.trainer.save(path, step=step)

    def load(self, path: str) -> int:
        """Restore a checkpoint."""
        return self.trainer.load(path)

    def close(self) -> None:
        """Free what the trainer holds."""
        if self._trainer is not None:
            self._trainer.close()


CALLS: dict[str, Callable[..., Any]] = {
    name: method
    for name, method in vars(Session).items()
    if callable(method) and not name.startswith("_")
}


def check_versions(theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """Refuse a trainer process whose installed plugins differ from the scheduler's.

    Raises:
        TrainerError: naming every distribution that differs.
    """
    different = [
        f"{name} {theirs.get(name, 'missing')} against {ours.get(name, 'missing')} here"
        for name in sorted({*theirs, *ours})
        if theirs.get(name) != ours.get(name)
    ]
    if different:
        raise TrainerError(
            f"plugins differ from the scheduler's: {', '.join(different)}",
            where="trainer process",
            next="install the same versions in both",
        )


def serve(connection: socket.socket, session: Session) -> None:
    """Answer calls until the other side closes."""
    while True:
        header = _receive(connection, frames.HEADER.size)
        if header is None:
            return
        body = _receive(connection, frames.body_length(header))
        if body is None:
            return
        message = frames.unpack(body)
        connection.sendall(frames.pack({"id": message["id"], **answer(session, message)}))


def answer(session: Session, message: Mapping[str, Any]) -> dict[str, Any]:
    """Make one call; an exception becomes a value, its traceback goes to the log."""
    try:
        return {"result": CALLS[message["call"]](session, **message["arguments"])}
    except MintactError as error:
        traceback.print_exc()
        kind = type(error).__name__
        return {
            "error": {"kind": kind, "what": error.what, "where": error.where, "next": error.next}
        }
    except Exception as error:
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        return {
            "error": {
                "kind": "TrainerError",
                "what": what,
                "where": f"trainer {message.get('call')}",
                "next": "",
            }
        }
    finally:
        sys.stderr.flush()


def _receive(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        chunk = connection.recv(min(size - len(parts), 1 << 20))
        if not chunk:
            return None
        parts += chunk
    return bytes(parts)


def main() -> None:
    """Run the worker."""
    faulthandler.enable()
    specification = processes.adopt()
    import_in_place()
    connection = socket.socket(fileno=int(specification["socket"]))
    connection.set_inheritable(False)
    processes.ready({})
    serve(connection, Session())


if __name__ == "__main__":
    main()
