"""What is wrong with a site's files on paper, before any browser opens them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mintact_env_web.synth.validate import Finding

MAX_FILES = 40
MAX_FILE = 400_000
MAX_SITE = 1_500_000
KINDS = (".html", ".css", ".js", ".json", ".svg", ".txt")
START = "index.html"

_NAME = re.compile(r"[A-Za-z0-9][\w-]*(?:[./][A-Za-z0-9][\w-]*)*\Z")
_ABROAD = re.compile(
    r"(?:\b(?:https?|wss?|ftp):)//[^\s\"'`<>)]+"
    # without a scheme: only where a URL stands, for // also begins a comment
    r"|(?<=[\"'(=])//[A-Za-z0-9-]+\.[^\s\"'`<>)]+",
    re.IGNORECASE,
)
_NAMESPACES = ("http://www.w3.org/", "https://www.w3.org/")
_NETWORK = re.compile(
    r"\bfetch\s*\(|\bXMLHttpRequest\b|\bWebSocket\b|\bEventSource\b|\bsendBeacon\b"
    r"|\bimportScripts\b|\bserviceWorker\b|\bnew\s+(?:Shared)?Worker\b|\bRTCPeerConnection\b"
    r"|\bWebTransport\b"
)
_EVAL = re.compile(
    r"\beval\s*\(|\bnew\s+Function\b|\bFunction\s*\(|\bset(?:Timeout|Interval)\s*\(\s*[\"'`]"
    r"|\bimport\s*\("
)
_ELSEWHERE = re.compile(
    r"\bsessionStorage\b|\bindexedDB\b|\bdocument\s*\.\s*cookie\b|\bcaches\s*\."
)
_REASONS = (
    (_NETWORK, "uses the network"),
    (_EVAL, "runs text as code"),
    (_ELSEWHERE, "keeps state outside localStorage"),
)


def scan(files: Mapping[str, str]) -> list[Finding]:
    """What speaks against a site's files.

    Args:
        files: text by path.

    Example:
        >>> scan({"index.html": "<script src='https://cdn.test/x.js'></script>"})[0].reason
        "index.html: external URL 'https://cdn.test/x.js'"
    """
    return [Finding("files", reason) for reason in _reasons(files)]


def safe_name(path: str) -> bool:
    """Whether a path stays inside its site's folder and is of a kind that sites are made of."""
    return len(path) <= 100 and _NAME.match(path) is not None and path.endswith(KINDS)


def _reasons(files: Mapping[str, str]) -> Iterator[str]:
    if START not in files:
        yield f"there is no {START}"
    if len(files) > MAX_FILES:
        yield f"{len(files)} files are more than {MAX_FILES}"
    sizes = {path: len(text.encode(errors="replace")) for path, text in files.items()}
    if sum(sizes.values()) > MAX_SITE:
        yield f"{sum(sizes.values())} bytes in all are more than {MAX_SITE}"
    for path, text in sorted(files.items()):
        if not safe_name(path):
            yield f"{path[:100]!r} is no file name; allowed are {' '.join(KINDS)} inside the site"
        elif sizes[path] > MAX_FILE:
            yield f"{path}: {sizes[path]} bytes are more than {MAX_FILE}"
        else:
            yield from _contents(path, text)


def _contents(path: str, text: str) -> Iterator[str]:
    foreign = (match[0] for match in _ABROAD.finditer(text))
    for url in sorted({u for u in foreign if not u.startswith(_NAMESPACES)})[:3]:
        yield f"{path}: external URL {url[:100]!r}"
    for pattern, reason in _REASONS:
        if found := pattern.search(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path}:{line}: {reason} ({found[0].strip()})"
