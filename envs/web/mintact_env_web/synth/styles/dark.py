"""Dark looks, and looks with a character of their own."""

from __future__ import annotations

from mintact_env_web.synth.site import Style

_MONO = "'DejaVu Sans Mono', 'Liberation Mono', monospace"
_SERIF = "Georgia, 'DejaVu Serif', 'Liberation Serif', serif"
_DARK = {"ink": "#e9ecef", "muted": "#9aa4ad"}

STYLES = (
    Style(
        "midnight",
        _DARK
        | {"accent": "#4dabf7", "on-accent": "#0b1620", "paper": "#10161d", "panel": "#1a232d"}
        | {"line": "#2b3743"},
        {"nav": "top", "hero": "split", "card": "border"},
    ),
    Style(
        "terminal",
        {"ink": "#b7f5c0", "muted": "#6fae7b", "accent": "#37d35a", "on-accent": "#06140a"}
        | {"paper": "#07110a", "panel": "#0d1d12", "line": "#1f5130", "font": _MONO}
        | {"radius": "0px"},
        {"nav": "side", "hero": "plain", "card": "row", "density": "compact"},
    ),
    Style(
        "cinema",
        _DARK
        | {"accent": "#e03131", "paper": "#141414", "panel": "#202020", "line": "#333333"}
        | {"hero": "linear-gradient(90deg, #000, #3b0d0d)", "radius": "4px"},
        {"nav": "underline", "hero": "reverse", "card": "bare", "density": "roomy"},
    ),
    Style(
        "velvet",
        {"ink": "#f3e8ff", "muted": "#b9a5d0", "accent": "#f2c94c", "on-accent": "#2a1245"}
        | {"paper": "#1f0f33", "panel": "#2d1848", "line": "#4a2d70", "font": _SERIF},
        {"nav": "center", "hero": "banner", "card": "border", "buttons": "outline"},
    ),
    Style(
        "dashboard",
        {"accent": "#6741d9", "paper": "#ffffff", "panel": "#f1f3f5", "line": "#dee2e6"}
        | {"top": "#212529", "top-ink": "#dee2e6", "radius": "8px", "width": "1400px"},
        {"nav": "side", "hero": "split", "card": "shadow"},
        "body { background: #f1f3f5; }",
    ),
    Style(
        "early-web",
        {"accent": "#0000cc", "paper": "#ffffff", "panel": "#d9e3f0", "line": "#7f9db9"}
        | {"font": "'Liberation Serif', 'Times New Roman', serif", "radius": "0px"},
        {"nav": "underline", "hero": "plain", "card": "row", "density": "compact"},
        "nav a { color: #0000cc; text-decoration: underline; } h1 { color: #8b0000; }"
        " button, .button { background: #e6e6e6; border: 2px outset #fff; color: #000; }"
        " button.primary, .button.primary { background: #c9d7ec; color: #000; }"
        " header.top { background: #d9e3f0; }",
    ),
    Style(
        "glass",
        {"accent": "#3b5bdb", "paper": "#f6f8ff", "panel": "#e9eeff", "line": "#c9d4ff"}
        | {"hero": "linear-gradient(135deg, #dbe4ff, #e5dbff)", "radius": "16px"}
        | {"shadow": "0 6px 20px rgb(60 80 180 / .12)"},
        {"nav": "top", "hero": "split", "card": "shadow", "buttons": "pill", "density": "roomy"},
        "body { background: linear-gradient(160deg, #f6f8ff, #eef1ff 50%, #fdf0ff); }",
    ),
)
