"""Quiet looks: light paper, one accent, the content in front."""

from __future__ import annotations

from mintact_env_web.synth.site import Style

_SERIF = "Georgia, 'DejaVu Serif', 'Liberation Serif', serif"
_MONO = "'DejaVu Sans Mono', 'Liberation Mono', monospace"

STYLES = (
    Style("clean", {"accent": "#1f6feb"}, {"nav": "top", "hero": "split", "card": "shadow"}),
    Style(
        "ledger",
        {"accent": "#7a1f1f", "paper": "#fbf8f1", "panel": "#f1ebdd", "line": "#d8cdb4"}
        | {"font": _SERIF, "radius": "0px"},
        {"nav": "center", "hero": "banner", "card": "row", "buttons": "outline"},
    ),
    Style(
        "nordic",
        {"accent": "#2f4858", "paper": "#ffffff", "panel": "#eef2f3", "line": "#cfd8dc"}
        | {"radius": "2px", "title-weight": "400"},
        {"nav": "underline", "hero": "reverse", "card": "bare", "density": "roomy"},
    ),
    Style(
        "newspaper",
        {"accent": "#111111", "paper": "#fdfcf8", "panel": "#f3f0e6", "line": "#1a1a1a"}
        | {"font": _SERIF, "radius": "0px", "width": "1000px"},
        {"nav": "center", "hero": "plain", "card": "bare", "buttons": "caps"},
        "header.top { border-bottom: 4px double #1a1a1a; } h1 { letter-spacing: -.02em; }"
        " .card { border-top: 1px solid #1a1a1a; padding-top: 8px; }",
    ),
    Style(
        "civic",
        {"accent": "#00633f", "paper": "#ffffff", "panel": "#f2f5f3", "line": "#b8c4bd"}
        | {"top": "#00633f", "top-ink": "#ffffff", "radius": "3px"},
        {"nav": "tabs", "hero": "plain", "card": "row"},
        "header.top .logo { background: #fff; color: #00633f; }"
        " nav a.here { background: #fff; color: #00633f; }",
    ),
    Style(
        "console",
        {"accent": "#0b6e4f", "paper": "#ffffff", "panel": "#f4f4f4", "line": "#c9c9c9"}
        | {"font": _MONO, "radius": "0px"},
        {"nav": "side", "hero": "plain", "card": "row", "density": "compact"},
    ),
    Style(
        "office",
        {"accent": "#185abd", "paper": "#ffffff", "panel": "#f3f2f1", "line": "#d2d0ce"}
        | {"top": "#185abd", "top-ink": "#ffffff", "radius": "2px"},
        {"nav": "side", "hero": "plain", "card": "shadow", "density": "compact"},
        "header.top .logo { background: #fff; color: #185abd; }"
        " nav a.here { background: rgb(255 255 255 / .22); }",
    ),
)
