"""What a client must know about an environment that it cannot import itself.

`python -m …environments.describing NAME` prints it as JSON, for environments that only another
interpreter can import. It reads parameters from its standard input, and says what is wrong with
them there, where their types are. It runs where pydantic may be missing: then parameters are known
by name only, and an action space of that interpreter's own must be a plugin of the client too.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from mintact_platform.environments.worker.encoding import plain
from mintact_platform.environments.worker.main import describe
from mintact_platform.errors import ConfigurationError, MintactError, PluginError
from mintact_platform.registry.guard import import_in_place
from mintact_platform.registry.names import Registry

_SECONDS = 120.0
_OLDEST = (3, 11)
"""Python that a worker runs on."""


def full_description(registry: Registry, name: str) -> dict[str, Any]:
    """The environment's metadata, with `action_space_schema` and `parameters`, a JSON schema.

    Raises:
        PluginError: no such environment, or it cannot be imported.
    """
    target = registry.get("environments", name)
    if not callable(target) or inspect.isbuiltin(target):
        what = f"is a {type(target).__name__}, which makes no environment"
        raise PluginError(what, where=f"environment {name!r}")
    metadata = describe(target)
    space = metadata.get("action_space")
    schema = None if space is None else describe_action_space(registry, space)
    return {**metadata, "action_space_schema": schema, "parameters": parameter_schema(target)}


def describe_action_space(registry: Registry, name: str) -> dict[str, Any] | None:
    """What a registered action space says of itself, None when it cannot be asked."""
    try:
        describe_itself = getattr(registry.get("action_spaces", name)(), "describe", None)
        return plain(describe_itself()) if callable(describe_itself) else None
    except Exception:
        # a plugin's code, or one missing here: the client needs the plugin itself
        return None


def parameter_schema(target: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only arguments as a JSON schema; without types where those have no JSON form."""
    try:
        # imported here: another interpreter may lack pydantic
        from mintact_platform.registry.parameters import parameters

        return parameters(target).model_json_schema()
    except Exception:
        # pydantic has as many ways to refuse a type as there are types
        return _names_only(target)


def check_interpreter(python: str, seconds: float = _SECONDS) -> None:
    """Refuse what cannot run a worker.

    Raises:
        ConfigurationError: it does not run, is no Python, or one that is too old.
    """
    code = "import sys; print(*sys.version_info[:2])"
    where = f"interpreter {python!r}"
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        done = subprocess.run([python, "-c", code], timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"did not answer within {seconds:g} s", where=where) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"cannot be run: {why}", where=where) from None
    words = done.stdout.split()[-2:]
    if done.returncode != 0 or len(words) < 2 or not all(map(str.isdecimal, words)):
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ConfigurationError(f"is no Python interpreter: {lines[-1]}", where=where)
    if tuple(map(int, words)) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ConfigurationError(
            f"is Python {'.'.join(words)}", where=where, next=f"take {oldest}+"
        )


def refusal(target: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, str] | None:
    """What is wrong with parameters, and what to do next; None where nothing is known to be."""
    try:
        # imported here: another interpreter may lack pydantic
        from mintact_platform.registry.parameters import check

        check(target, params, where="params")
    except ConfigurationError as error:
        return {"what": error.what, "next": error.next}
    except Exception:
        # the schema is all that is known then
        return None
    return None


def described_by(
    python: str, name: str, seconds: float = _SECONDS, params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The full description, by another interpreter.

    Args:
        python: the interpreter.
        name: of the environment.
        seconds: it may take.
        params: parameters to look at; what is wrong with them comes as `refused`, a `refusal`.

    Raises:
        ConfigurationError: the interpreter cannot run this, or knows no such environment.
    """
    command = [python, "-m", "mintact_platform.environments.worker.describing", name]
    where = f"interpreter {python!r}"
    given = json.dumps(params or {}, default=str)
    options: dict[str, Any] = {"input": given, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        raise ConfigurationError(
            f"importing environment {name!r} took over {seconds:g} s", where=where
        ) from None
    except OSError as error:
        raise ConfigurationError(f"cannot be run: {error}", where=where) from None
    try:
        # an import may print; the description is the last line
        described: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        described = {}
    if done.returncode != 0 or not described:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ConfigurationError(
            f"cannot describe environment {name!r}: {lines[-1]}",
            where=where,
            next="it needs mintact-platform and the environment's own distribution",
        )
    return described


def main(name: str, params: Mapping[str, Any]) -> int:
    """Print the description as one line of JSON; exit code 1 with the reason on stderr."""
    try:
        registry = Registry.discover()
        described = full_description(registry, name)
        described["refused"] = refusal(registry.get("environments", name), params)
    except MintactError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{json.dumps(described)}")
    return 0


def _names_only(target: Callable[..., Any]) -> dict[str, Any]:
    properties: dict[str, Mapping[str, Any]] = {}
    required, more = [], False
    for parameter in inspect.signature(target).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            more = True
        elif parameter.kind is parameter.KEYWORD_ONLY:
            properties[parameter.name] = {}
            if parameter.default is parameter.empty:
                required.append(parameter.name)
    described = {"properties": properties, "required": required, "additionalProperties": more}
    return {"type": "object", **described}


if __name__ == "__main__":
    import_in_place()
    sys.exit(main(sys.argv[1], json.loads(sys.stdin.read() or "{}")))
