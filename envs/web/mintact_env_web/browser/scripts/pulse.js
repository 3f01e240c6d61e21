// How busy a document is, so that a screenshot is taken when it came to rest.
// Deliberately cheap: counters that the browser's own calls move, read in one evaluation.
const SHORT_MS = 500;
const DEEP = 6;
const LEAVING_MS = 4000;
const COMING_MS = 1000;
const ANSWER_MS = 2000;
const clock = performance.now.bind(performance);
const DOCUMENT = performance.timeOrigin;
const state = { changed: clock(), leaving: 0, coming: 0, painted: -1e6, fetches: 0, timers: new Map(), frames: new Set(), loads: new Set(), asked: new Map(), depth: 0 };
const roots = new WeakMap();
const touch = () => { state.changed = clock(); };

const observer = new MutationObserver((records) => {
  touch();
  for (const record of records) for (const node of record.addedNodes) waitFor(node);
});
const WATCHED = { childList: true, subtree: true, attributes: true, characterData: true };
observer.observe(document, WATCHED);

// elements whose loading shows
function waitFor(node) {
  const pending = (node.nodeName === "SCRIPT" && node.src && !node.noModule)
    || (node.nodeName === "LINK" && node.rel === "stylesheet" && !node.disabled && node.sheet === null);
  if (pending) state.loads.add(node);
}
for (const kind of ["load", "error"])
  document.addEventListener(kind, (event) => { state.loads.delete(event.target); touch(); }, true);
for (const kind of ["scroll", "input", "focusin", "toggle"])
  addEventListener(kind, touch, { capture: true, passive: true });
// ends that were brought about by a pulse change nothing any more
const ended = new WeakMap();
const moved = (event) => {
  const ours = event.type.endsWith("end") ? ended.get(event.target) : 0;
  if (ours) ended.set(event.target, ours - 1);
  else touch();
};
const moves = (root) => {
  for (const kind of ["transitionrun", "transitionend", "transitioncancel", "animationstart", "animationend"])
    root.addEventListener(kind, moved, { capture: true, passive: true });
};
moves(window);

function replace(holder, name, make) {
  const original = holder?.[name];
  if (typeof original !== "function") return;
  const copy = make(original);
  Object.defineProperty(copy, "name", { value: name });
  copy.toString = () => original.toString();
  holder[name] = copy;
}

replace(window, "setTimeout", (original) => function (work, delay, ...rest) {
  const wait = Number(delay) || 0;
  if (typeof work !== "function" || wait > SHORT_MS || state.depth >= DEEP) return original(work, delay, ...rest);
  const depth = state.depth + 1;
  const id = original(() => {
    state.timers.delete(id);
    touch();
    const before = state.depth;
    state.depth = depth;
    try { return work.apply(window, rest); } finally { state.depth = before; }
  }, delay);
  state.timers.set(id, depth);
  return id;
});
for (const name of ["clearTimeout", "clearInterval"])
  replace(window, name, (original) => function (id) { state.timers.delete(id); return original(id); });

replace(window, "requestAnimationFrame", (original) => function (work) {
  const id = original((time) => { state.frames.delete(id); state.painted = clock(); return work(time); });
  state.frames.add(id);
  return id;
});
replace(window, "cancelAnimationFrame", (original) => function (id) { state.frames.delete(id); return original(id); });

function settled() { state.fetches -= 1; touch(); }
function outstand(answer) {
  state.fetches += 1;
  touch();
  answer.then(settled, settled);
  return answer;
}
replace(window, "fetch", (original) => function (...args) { return outstand(original(...args)); });
// an answer has come when its body has; one that is read piece by piece may never end
for (const name of ["arrayBuffer", "blob", "bytes", "formData", "json", "text"])
  replace(Response.prototype, name, (original) => function () { return outstand(original.call(this)); });
replace(XMLHttpRequest.prototype, "send", (original) => function (...args) {
  state.fetches += 1;
  touch();
  this.addEventListener("loadend", settled, { once: true });
  try { return original.apply(this, args); } catch (error) { settled(); throw error; }
});

// a socket is waited for until it is open, and until it answers what was said to it, if it ever does
const mute = new WeakSet();
const Socket = window.WebSocket;
if (typeof Socket === "function") {
  window.WebSocket = new Proxy(Socket, { construct(target, args, as) {
    const socket = Reflect.construct(target, args, as);
    state.fetches += 1;
    touch();
    let opening = true;
    const opened = () => { if (opening) { opening = false; settled(); } };
    for (const kind of ["open", "error", "close"]) socket.addEventListener(kind, opened);
    socket.addEventListener("message", () => { state.asked.delete(socket); touch(); });
    return socket;
  } });
  replace(Socket.prototype, "send", (original) => function (...args) {
    original.apply(this, args);
    if (!mute.has(this)) state.asked.set(this, clock());
    touch();
  });
}
function unanswered(now) {
  for (const [socket, asked] of state.asked) {
    if (socket.readyState === 1 && now - asked < ANSWER_MS) continue;
    if (socket.readyState === 1) mute.add(socket);
    state.asked.delete(socket);
  }
  return state.asked.size > 0;
}
replace(window.ServiceWorkerContainer?.prototype, "register", (original) => function (...args) {
  return outstand(original.apply(this, args));
});

replace(Element.prototype, "attachShadow", (original) => function (options) {
  const root = original.call(this, options);
  roots.set(this, root);
  observer.observe(root, WATCHED);
  moves(root);
  for (const act of shadows) act(root);
  return root;
});
const shadows = [];

window.navigation?.addEventListener("navigate", (event) => {
  if (event.destination.sameDocument || event.hashChange) return;
  if (event.downloadRequest !== null) return expect();
  state.leaving = clock();
  event.signal.addEventListener("abort", () => { state.leaving = 0; });
});
window.navigation?.addEventListener("navigateerror", () => { state.leaving = 0; });

// tabs, downloads and file choosers appear a little after what brings them
const HERE = ["", "_self", "_top", "_parent"];
function expect() { state.coming = clock(); }
function brings(element) {
  if (!(element instanceof Element)) return false;
  if (element.matches("input[type=file]:enabled")) return true;
  const link = element.closest("a[href], area[href]");
  return link !== null && (link.hasAttribute("download") || !HERE.includes(link.target.toLowerCase()));
}
addEventListener("click", (event) => {
  if (!event.defaultPrevented && brings(event.composedPath()[0])) expect();
});
addEventListener("submit", (event) => {
  const where = event.submitter?.formTarget || event.target.target || "";
  if (!event.defaultPrevented && !HERE.includes(where.toLowerCase())) expect();
});
replace(window, "open", (original) => function (...args) { expect(); return original.apply(window, args); });
// a tab that closes itself is there for a moment more
if (window === window.top) replace(window, "close", (original) => function () { state.leaving = clock(); return original.call(window); });
replace(HTMLElement.prototype, "click", (original) => function () {
  if (brings(this)) expect();
  return original.call(this);
});

// an image that came between a picture and the question after it is a change, though no node is
const shown = new WeakMap();
function images() {
  for (const image of document.images) {
    if (image.complete || !image.src) {
      if (image.src && shown.get(image) !== image.currentSrc) { shown.set(image, image.currentSrc); touch(); }
      continue;
    }
    if (image.loading !== "lazy") return true;
    const box = image.getBoundingClientRect();
    if (box.top < innerHeight && box.bottom > 0) return true;
  }
  return false;
}

function finish(animation) {
  animation.finish();
  const { target } = animation.effect ?? {};
  if (target && !(animation.constructor === Animation)) ended.set(target, (ended.get(target) ?? 0) + 1);
}

function animated() {
  let any = false;
  for (const animation of document.getAnimations()) {
    if (animation.playState !== "running") continue;
    const end = animation.effect?.getComputedTiming().endTime;
    try { Number.isFinite(end) ? finish(animation) : animation.cancel(); any = true; } catch { animation.pause(); }
  }
  if (any) touch();
}

// [loading, busy, milliseconds since it last painted, milliseconds since the last change, copied text,
//  milliseconds since the document began, which document]
function pulse() {
  animated();
  const now = clock();
  let loading = document.readyState !== "complete" || (state.leaving && now - state.leaving < LEAVING_MS);
  for (const node of state.loads) if (!node.isConnected) state.loads.delete(node);
  let busy = state.fetches > 0 || state.timers.size > 0 || state.loads.size > 0
    || (state.coming && now - state.coming < COMING_MS) || document.fonts?.status === "loading" || images() || unanswered(now);
  let painted = state.frames.size > 0 ? 0 : now - state.painted;
  let quiet = now - state.changed;
  let copied = window[KEY].takeCopied?.() ?? null;
  for (let i = 0; i < window.length; i += 1) {
    let inner = null;
    try { inner = window[i][KEY]?.pulse(); } catch { painted = 0; continue; }
    if (!inner) continue;
    loading ||= inner[0]; busy ||= inner[1]; painted = Math.min(painted, inner[2]); quiet = Math.min(quiet, inner[3]); copied ??= inner[4];
  }
  return [Boolean(loading), Boolean(busy), painted, quiet, copied, now, DOCUMENT];
}

const KEY = Symbol.for("mintact");
Object.defineProperty(window, KEY, {
  value: {
    pulse, touch,
    // something is outstanding, or no longer, that cannot be seen from here
    outstanding: (by) => { state.fetches += by; touch(); },
    // the navigation that was begun leads nowhere: a download, an empty answer
    stay: () => { state.leaving = state.coming = 0; },
    came: () => { state.coming = 0; },
    onShadow: (act) => shadows.push(act), root: (host) => roots.get(host) ?? host.shadowRoot,
  },
});
