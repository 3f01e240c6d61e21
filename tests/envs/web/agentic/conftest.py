"""A small site as a model would write it, and an endpoint that answers from a script."""

import copy
import http.server
import json
import threading

import pytest

PAGE = """<!doctype html><html><head><meta charset=utf-8><title>Tool library</title>
<link rel=stylesheet href=site.css></head><body><h1>Tool library</h1>
<nav><button data-k=home>Tools</button> <button data-k=orders>Loans</button></nav>
<main id=main></main><script src=site.js></script></body></html>"""
STYLE = "body { font: 16px Arial; margin: 20px } li { margin: 6px 0 } .far { margin-top: 900px }"
SCRIPT = """const KEY = 'tools';
const DATA = { tools: [
  { id: 1, name: 'Drill', price: 4, lent: false },
  { id: 2, name: 'Ladder', price: 7, lent: false },
  { id: 3, name: 'Saw', price: 2.5, lent: false },
  { id: 4, name: 'Pump', price: 9, lent: true }],
  loans: [{ id: 'a', tool: 4, who: 'Ines' }],
  settings: { branch: 'North', news: false }, orders: 1 };
let state = JSON.parse(localStorage.getItem(KEY)) || DATA, view = 'home';
function save() { localStorage.setItem(KEY, JSON.stringify(state)); draw(); }
function draw() {
  document.getElementById('main').innerHTML = view === 'home'
    ? '<ul>' + state.tools.map(t => `<li>${t.name}, $${t.price.toFixed(2)} a day
        <button data-k="lend:${t.id}" ${t.lent ? 'disabled' : ''}>Borrow</button>`).join('')
      + `</ul><label>Branch <select data-k=branch>${['North', 'South', 'West'].map(b =>
        `<option ${b === state.settings.branch ? 'selected' : ''}>${b}</option>`).join('')}
        </select></label><p class=far><input placeholder="Your name" data-k=who value="Ada">
        <button data-k=news>Send me news</button></p>`
    : '<ul>' + state.loans.map(l => `<li>${l.who} has tool ${l.tool}
        <button data-k="return:${l.id}">Return</button></li>`).join('') + '</ul>';
}
document.addEventListener('click', event => {
  const k = event.target.dataset.k || '', [verb, id] = k.split(':');
  if (k === 'home' || k === 'orders') { view = k; draw(); }
  if (verb === 'lend') {
    state.tools.find(t => t.id == id).lent = true;
    const who = document.querySelector('[data-k=who]').value;
    state.loans.push({ id: 'n' + state.orders, tool: Number(id), who });
    state.orders += 1; save();
  }
  if (verb === 'return') {
    const loan = state.loans.find(l => l.id === id);
    state.tools.find(t => t.id === loan.tool).lent = false;
    state.loans = state.loans.filter(l => l !== loan); save();
  }
  if (k === 'news') { state.settings.news = !state.settings.news; save(); }
});
document.addEventListener('change', event => {
  if (event.target.dataset.k === 'branch') { state.settings.branch = event.target.value; save(); }
});
save();
"""
TASKS = [
    {
        "name": "borrow",
        "goal": "Borrow the ladder under the name Rosa.",
        "level": 2,
        "check": {
            "all": [
                {"equals": [{"after": "loans.1.tool"}, 2]},
                {"equals": [{"after": "loans.1.who"}, "Rosa"]},
                {"equals": [{"count": {"after": "loans"}}, 2]},
                {"only_changed": ["loans", "tools.1.lent", "orders"]},
            ]
        },
        "solve": [{"type": "Your name", "text": "Rosa"}, {"click": "lend:2"}],
        "miss": [{"type": "who", "text": "Rosa"}, {"click": "lend:1"}],
    },
    {
        "name": "return",
        "goal": "Bring the pump back.",
        "level": 1,
        "check": {
            "all": [
                {"equals": [{"after": "loans"}, []]},
                {"only_changed": ["loans", "tools.3.lent"]},
            ]
        },
        "solve": [{"click": "Loans"}, {"click": "Return"}],
        "miss": [{"click": "Loans"}],
    },
    {
        "name": "branch",
        "goal": "Change the branch to West and ask for news.",
        "level": 2,
        "check": {
            "all": [
                {"equals": [{"after": "settings"}, {"literal": {"branch": "West", "news": True}}]},
                {"only_changed": "settings"},
            ]
        },
        "solve": [{"choose": "branch", "option": "West"}, {"click": "Send me news"}],
        "miss": [{"choose": "branch", "option": "South"}, {"click": "news"}],
    },
    {
        "name": "price",
        "goal": "What does the saw cost a day?",
        "level": 1,
        "check": {"all": [{"answered": "2.50"}, {"only_changed": []}]},
        "solve": [{"stop": "$2.50"}],
        "miss": [{"stop": "$7.00"}],
    },
]


class Draft:
    """A site that a model gives; `answer` is how it writes it down."""

    def __init__(self, name="tool-library"):
        self.values = {"name": name, "key": "tools", "tasks": copy.deepcopy(TASKS)}
        self.files = {"index.html": PAGE, "site.css": STYLE, "site.js": SCRIPT}

    def task(self, name):
        return next(task for task in self.values["tasks"] if task["name"] == name)

    def edit(self, path, old, new):
        assert old in self.files[path]
        self.files[path] = self.files[path].replace(old, new)
        return self

    def blocks(self):
        files = {**self.files, "site.json": json.dumps(self.values)}
        return "Here it is.\n" + "\n".join(
            f"```{path.rpartition('.')[2]} {path}\n{text}\n```" for path, text in files.items()
        )

    def inline(self):
        return json.dumps({**self.values, "files": self.files})


class Endpoint:
    """A chat completion server on a real port; `script(body) -> answer` says what comes back.

    An answer is text, or `(status, headers, body)`.
    """

    def __init__(self, script):
        self.asked, self.headers = [], []
        lock = threading.Lock()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    endpoint.asked.append(body)
                    endpoint.headers.append(dict(self.headers))
                    answer = script(body)
                status, headers, content = (
                    (200, {}, completion(answer)) if isinstance(answer, str) else answer
                )
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def completion(text, finish="stop", **message):
    return {
        "choices": [
            {"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": {"total_tokens": 100},
    }


@pytest.fixture
def draft():
    return Draft


@pytest.fixture
def chat():
    return completion


@pytest.fixture
def endpoint(monkeypatch):
    """Start an endpoint with a script."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    started = []

    def start(script):
        started.append(Endpoint(script))
        return started[-1]

    yield start
    for one in started:
        one.close()
