"""A recorded site on disk: `site.toml`, `entries.jsonl`, `sockets.jsonl`, and bodies by hash."""

from __future__ import annotations

import base64
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mintact_env_web.cache.exchange import Entry, Frame, Request, Response, Socket
from mintact_env_web.cache.fields import digest
from mintact_env_web.cache.rules import Rules, toml_value
from mintact_platform.errors import ConfigurationError, near_match

FORMAT = 1
META = "site.toml"


@dataclass(frozen=True)
class Site:
    """A recorded site.

    Attributes:
        start: URL that an episode begins at.
        recorded_ms: when the first visit began, epoch milliseconds; the replay's clock.
        width: of the screen that it was recorded on, pixels.
        height: pixels.
        seed: of the replay's randomness.
        rules: see `Rules`.
        entries: of all visits, in the order of their requests.
        sockets: of all visits, in order of opening.
    """

    start: str
    recorded_ms: int
    width: int = 1280
    height: int = 720
    seed: int = 0
    rules: Rules = field(default_factory=Rules)
    entries: tuple[Entry, ...] = ()
    sockets: tuple[Socket, ...] = ()

    @property
    def visits(self) -> int:
        """How often it was visited."""
        return max((entry.visit for entry in self.entries), default=0) + 1


class Bodies:
    """Bodies by the hash of their content.

    Args:
        directory: of the site.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "bodies"

    def put(self, data: bytes) -> str:
        """Store a body once; its name."""
        name = digest(data)
        path = self._path(name)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{name}.{os.getpid()}")
            partial.write_bytes(data)
            partial.replace(path)
        return name

    def get(self, name: str | None) -> bytes:
        """A body; empty for None.

        Raises:
            ConfigurationError: it is not there.
        """
        if name is None:
            return b""
        try:
            return self._path(name).read_bytes()
        except OSError:
            raise ConfigurationError(
                f"body {name!r} is missing", where=str(self._directory), next="record it again"
            ) from None

    def _path(self, name: str) -> Path:
        return self._directory / name[:2] / name


def save(site: Site, directory: Path) -> None:
    """Write all but the response bodies, which `Bodies` has stored already."""
    directory.mkdir(parents=True, exist_ok=True)
    bodies = Bodies(directory)
    _write_lines(directory / "entries.jsonl", (_entry_json(e, bodies) for e in site.entries))
    _write_lines(directory / "sockets.jsonl", map(_socket_json, site.sockets))
    save_meta(site, directory)


def save_meta(site: Site, directory: Path) -> None:
    """Write `site.toml`, the part that people edit."""
    values = {
        "format": FORMAT,
        "start": site.start,
        "recorded_ms": site.recorded_ms,
        "width": site.width,
        "height": site.height,
        "seed": site.seed,
    }
    lines = [f"{key} = {toml_value(value)}" for key, value in values.items()]
    (directory / META).write_text("\n".join([*lines, "", site.rules.to_toml()]))


def load(directory: Path) -> Site:
    """Read a recorded site.

    Raises:
        ConfigurationError: not a recorded site, or one that cannot be read.
    """
    site = load_meta(directory)
    bodies = Bodies(directory)
    entries = tuple(_entry(line, bodies) for line in _lines(directory / "entries.jsonl"))
    sockets = tuple(_socket(line) for line in _lines(directory / "sockets.jsonl"))
    return replace(site, entries=entries, sockets=sockets)


def load_meta(directory: Path) -> Site:
    """Read `site.toml` only.

    Raises:
        ConfigurationError: there is none, or it has unknown keys.
    """
    path = directory / META
    try:
        values = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigurationError(
            "not a recorded site", where=str(directory), next=f"a site has a file {META!r}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(error), where=str(path)) from None
    if values.pop("format", None) != FORMAT:
        raise ConfigurationError(f"format must be {FORMAT}", where=str(path))
    rules = Rules.from_json(values.pop("rules", {}), str(path))
    known = {"start": str, "recorded_ms": int, "width": int, "height": int, "seed": int}
    for key, value in values.items():
        if key not in known:
            raise ConfigurationError(
                f"unknown key {key!r}", where=str(path), next=near_match(key, known)
            )
        if not isinstance(value, known[key]):
            raise ConfigurationError(f"{key!r} cannot be {value!r}", where=str(path))
    for key in ("start", "recorded_ms"):
        if key not in values:
            raise ConfigurationError(f"{key!r} is missing", where=str(path))
    return Site(rules=rules, **values)


def sites_in(directory: Path) -> list[Path]:
    """Recorded sites directly below a directory, or the directory itself when it is one."""
    if (directory / META).is_file():
        return [directory]
    return sorted(path.parent for path in directory.glob(f"*/{META}"))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Objects of a file of JSON lines; none when there is no file.

    Raises:
        ConfigurationError: a line is not a JSON object; says which.
    """
    return list(_lines(path))


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ConfigurationError("not a JSON object", where=f"{path}:{number}")
        yield value


def _write_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    lines = (json.dumps(value, ensure_ascii=False, separators=(", ", ": ")) for value in values)
    path.write_text("".join(f"{line}\n" for line in lines))


def _entry_json(entry: Entry, bodies: Bodies) -> dict[str, Any]:
    request, response = entry.request, entry.response
    body = bodies.put(request.body) if request.body else None
    line: dict[str, Any] = {
        "visit": entry.visit,
        "time_s": round(entry.time_s, 3),
        "method": request.method,
        "url": request.url,
        "kind": request.kind,
        "status": response.status if response else None,
        "error": entry.error,
        "request": {"headers": dict(request.headers), "body": body},
    }
    if response is not None:
        line["response"] = {"headers": [list(h) for h in response.headers], "body": response.body}
    return line


def _entry(line: Mapping[str, Any], bodies: Bodies) -> Entry:
    asked, answer = line["request"], line.get("response")
    body = bodies.get(asked["body"]) if asked.get("body") else None
    request = Request(line["method"], line["url"], asked["headers"], body, line["kind"])
    response = None
    if answer is not None:
        headers = tuple((name, value) for name, value in answer["headers"])
        response = Response(line["status"], headers, answer["body"])
    return Entry(request, response, line["visit"], line["time_s"], line.get("error"))


def _socket_json(socket: Socket) -> dict[str, Any]:
    frames = []
    for frame in socket.frames:
        data: Any = frame.data
        if isinstance(data, bytes):
            data = {"base64": base64.b64encode(data).decode()}
        frames.append(["sent" if frame.sent else "received", data])
    return {"visit": socket.visit, "url": socket.url, "closed": socket.closed, "frames": frames}


def _socket(line: Mapping[str, Any]) -> Socket:
    frames = tuple(
        Frame(side == "sent", data if isinstance(data, str) else base64.b64decode(data["base64"]))
        for side, data in line["frames"]
    )
    return Socket(line["url"], frames, line["closed"], line["visit"])
