"""What a site's files may not have."""

import pytest
from mintact_env_web.agentic.scan import MAX_FILE, MAX_SITE, safe_name, scan


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("site.js", "load('https://cdn.test/lib.js')", "external URL 'https://cdn.test/lib.js'"),
        ("index.html", "<script src=//cdn.test/x.js></script>", "external URL '//cdn.test/x.js'"),
        ("site.css", "@import url(//fonts.test/f.css)", "external URL '//fonts.test/f.css'"),
        ("site.js", "new WebSocket(a)", "uses the network"),
        ("site.js", "\n\nfetch ('x')", "site.js:3: uses the network"),
        ("site.js", "navigator.serviceWorker", "uses the network"),
        ("site.js", "eval(text)", "runs text as code"),
        ("site.js", "new Function('x')", "runs text as code"),
        ("site.js", "setTimeout('go()', 1)", "runs text as code"),
        ("site.js", "await import('./x.js')", "runs text as code"),
        ("site.js", "sessionStorage.a = 1", "keeps state outside localStorage"),
        ("site.js", "document.cookie = 'a'", "keeps state outside localStorage"),
        ("../up.js", "", "no file name"),
        ("/etc/passwd", "", "no file name"),
        ("a/../../b.js", "", "no file name"),
        (".hidden.js", "", "no file name"),
        ("run.exe", "", "no file name"),
        ("a\\b.js", "", "no file name"),
        ("x.js\n", "", "no file name"),
        ("big.js", "x" * (MAX_FILE + 1), "bytes are more than"),
    ],
)
def test_a_file_is_refused_with_its_reason(path, text, reason):
    files = {"index.html": "<p>hi", path: text}
    assert any(reason in finding.reason for finding in scan(files))


def test_too_much_and_no_start_are_refused():
    assert [f.reason for f in scan({"site.js": ""})] == ["there is no index.html"]
    many = {"index.html": "", **{f"f{i}.txt": "x" * MAX_FILE for i in range(50)}}
    reasons = [finding.reason for finding in scan(many)]
    assert any("files are more than" in reason for reason in reasons)
    assert any(f"more than {MAX_SITE}" in reason for reason in reasons)


def test_an_ordinary_site_passes():
    text = """<svg xmlns="http://www.w3.org/2000/svg"></svg>
    <script>
    // a comment about prefetching. See site.js
    const refetch = () => 1; function makeFunction(a) { return () => a }
    setTimeout(() => refetch(), 100); // evaluate later
    </script><a href="#/shop">Shop</a> call me at 5//6.50"""
    assert scan({"index.html": text, "css/site.css": "a { color: red }"}) == []
    assert safe_name("pages/about-us.html")
