"""Colourful looks: tinted paper, strong accents, round shapes."""

from __future__ import annotations

from mintact_env_web.synth.site import Style

_ROUND = "'DejaVu Sans', Verdana, sans-serif"

STYLES = (
    Style(
        "candy",
        {"accent": "#d6336c", "paper": "#fff6f9", "panel": "#ffe3ec", "line": "#fcc2d7"}
        | {"radius": "18px", "font": _ROUND},
        {"nav": "center", "hero": "split", "card": "shadow", "buttons": "pill"},
    ),
    Style(
        "market",
        {"accent": "#e8590c", "paper": "#ffffff", "panel": "#fff4e6", "line": "#ffd8a8"}
        | {"top": "#ffd43b", "radius": "6px"},
        {"nav": "top", "hero": "banner", "card": "border", "density": "compact"},
        "h1 { text-transform: uppercase; } .card .price { color: #c92a2a; font-size: 1.25em; }",
    ),
    Style(
        "meadow",
        {"accent": "#2b8a3e", "paper": "#f8fdf6", "panel": "#ebfbee", "line": "#b2f2bb"}
        | {"hero": "linear-gradient(120deg, #d3f9d8, #fff3bf)", "radius": "14px"},
        {"nav": "underline", "hero": "split", "card": "wide"},
    ),
    Style(
        "lagoon",
        {"accent": "#0b7285", "paper": "#ffffff", "panel": "#e3fafc", "line": "#99e9f2"}
        | {"top": "linear-gradient(90deg, #0b7285, #1098ad)", "top-ink": "#ffffff"},
        {"nav": "top", "hero": "reverse", "card": "shadow", "buttons": "pill"},
        "nav a.here { background: rgb(255 255 255 / .25); }"
        " header.top .logo { background: #fff; color: #0b7285; }",
    ),
    Style(
        "sunset",
        {"accent": "#ae3ec9", "paper": "#fffaf5", "panel": "#fff0e6", "line": "#f3d2c1"}
        | {"hero": "linear-gradient(100deg, #ffd8a8, #fcc2d7 60%, #e5dbff)", "radius": "10px"},
        {"nav": "top", "hero": "banner", "card": "border", "density": "roomy"},
    ),
    Style(
        "blocks",
        {"accent": "#f03e3e", "paper": "#ffffff", "panel": "#ffec99", "line": "#212529"}
        | {"radius": "0px", "shadow": "5px 5px 0 #212529", "title-weight": "800"},
        {"nav": "tabs", "hero": "split", "card": "shadow"},
        ".card, .panel, button, .button, .list { border: 2px solid #212529; }",
    ),
    Style(
        "paper-cut",
        {"accent": "#364fc7", "paper": "#fbf3e4", "panel": "#f4e3c3", "line": "#e0c48f"}
        | {"radius": "22px 4px 22px 4px", "shadow": "2px 3px 8px rgb(120 90 30 / .25)"},
        {"nav": "center", "hero": "reverse", "card": "wide"},
    ),
)
