// The list of a <select>. The browser draws it in a window of its own, which no screenshot shows:
// it is drawn in the page instead, above everything, and taken away with the choice.
const KEY = Symbol.for("mintact");
const ROW = 24;
const MAX_ROWS = 12;
let open = null;

const STYLE = `
:host { all: initial; position: fixed; inset: auto; margin: 0; padding: 0; border: 0; background: none; overflow: visible; }
.list { position: fixed; box-sizing: border-box; overflow: auto; background: #fff; color: #111; border: 1px solid #767676;
  font: 14px/${ROW}px system-ui, sans-serif; box-shadow: 0 2px 8px rgba(0, 0, 0, .3); cursor: default; user-select: none; }
.row { padding: 0 8px; white-space: nowrap; height: ${ROW}px; overflow: hidden; text-overflow: ellipsis; }
.row.in { padding-left: 20px; }
.row.group { font-weight: bold; }
.row.off { color: #999; }
.row.on { background: #1967d2; color: #fff; }`;

function target(event) {
  const element = event.composedPath()[0];
  return element instanceof Element ? element.closest("select") : null;
}

function dropdown(list) {
  return list && !list.disabled && !list.multiple && list.size <= 1;
}

function shut() {
  open?.host.remove();
  open = null;
}

function show(list) {
  shut();
  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "closed" });
  const box = document.createElement("div");
  const style = document.createElement("style");
  style.textContent = STYLE;
  box.className = "list";
  root.append(style, box);
  open = { list, host, box, rows: [], at: list.selectedIndex };
  fill();
  host.popover = "manual";
  document.documentElement.append(host);
  host.showPopover?.();
  place();
  mark(list.selectedIndex);
}

function fill() {
  let group = null;
  for (const option of open.list.options) {
    if (option.hidden) continue;
    const parent = option.parentElement instanceof HTMLOptGroupElement ? option.parentElement : null;
    if (parent && parent !== group) row(parent.label, "group off");
    group = parent;
    const off = option.disabled || parent?.disabled;
    const element = row(option.label || option.text || "\u00a0", `${parent ? "in" : ""} ${off ? "off" : ""}`);
    open.rows.push({ element, index: option.index, off });
  }
}

function row(words, kind) {
  const element = document.createElement("div");
  element.className = `row ${kind}`;
  element.textContent = words;
  open.box.append(element);
  return element;
}

function place() {
  const at = open.list.getBoundingClientRect();
  const wanted = Math.min(open.box.childElementCount, MAX_ROWS) * ROW + 2;
  const below = innerHeight - at.bottom, above = at.top;
  const down = below >= wanted || below >= above;
  const height = Math.max(ROW + 2, Math.min(wanted, down ? below : above));
  Object.assign(open.box.style, {
    minWidth: `${at.width}px`, maxWidth: `${innerWidth}px`, height: `${height}px`,
    top: `${down ? at.bottom : at.top - height}px`,
  });
  const width = open.box.getBoundingClientRect().width;
  open.box.style.left = `${Math.max(0, Math.min(at.left, innerWidth - width))}px`;
}

function mark(index) {
  open.at = index;
  for (const entry of open.rows) {
    const on = entry.index === index;
    entry.element.classList.toggle("on", on);
    if (on) entry.element.scrollIntoView({ block: "nearest" });
  }
}

function choose(index) {
  const { list } = open;
  shut();
  if (index === list.selectedIndex) return;
  list.selectedIndex = index;
  list.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
  list.dispatchEvent(new Event("change", { bubbles: true }));
}

function inside(event) {
  return open !== null && event.composedPath().includes(open.host);
}

function entryAt(event) {
  return open.rows.find(({ element }) => {
    const box = element.getBoundingClientRect();
    return event.clientY >= box.top && event.clientY < box.bottom;
  });
}

function swallow(event) {
  event.stopImmediatePropagation();
  event.preventDefault();
}

addEventListener("mousedown", (event) => {
  if (inside(event)) {
    // its own scroll bar stays a scroll bar
    event.stopImmediatePropagation();
    if (event.offsetX < open.box.clientWidth || event.target !== open.host) event.preventDefault();
    return;
  }
  const list = target(event);
  const again = open?.list === list;
  shut();
  if (event.button !== 0 || !dropdown(list)) return;
  event.preventDefault();
  list.focus();
  if (!again) show(list);
}, true);

for (const kind of ["mouseup", "click", "dblclick", "pointerdown", "pointerup", "mouseover", "pointerover"])
  addEventListener(kind, (event) => {
    if (!inside(event)) return;
    swallow(event);
    if (kind !== "click") return;
    const entry = entryAt(event);
    if (entry && !entry.off) choose(entry.index);
  }, true);
for (const kind of ["mousemove", "pointermove"])
  addEventListener(kind, (event) => {
    if (!inside(event)) return;
    event.stopImmediatePropagation();
    const entry = kind === "mousemove" ? entryAt(event) : null;
    if (entry && !entry.off) mark(entry.index);
  }, true);

function step(by) {
  const free = open.rows.filter((entry) => !entry.off);
  const now = free.findIndex((entry) => entry.index === open.at);
  const next = free[Math.max(0, Math.min(free.length - 1, now + by))];
  if (next) mark(next.index);
}

const MOVES = { ArrowDown: 1, ArrowUp: -1, PageDown: MAX_ROWS, PageUp: -MAX_ROWS, Home: -1e6, End: 1e6 };
addEventListener("keydown", (event) => {
  if (open === null) {
    const list = target(event);
    if (!dropdown(list)) return;
    const opens = event.key === " " || event.key === "Enter" || (event.altKey && event.key === "ArrowDown");
    if (!opens) return;
    swallow(event);
    show(list);
    return;
  }
  if (event.key in MOVES) { swallow(event); step(MOVES[event.key]); }
  else if (event.key === "Enter" || event.key === " ") { swallow(event); choose(open.at); }
  else if (event.key === "Escape") { swallow(event); shut(); }
  else if (event.key === "Tab") choose(open.at);
}, true);
addEventListener("blur", (event) => { if (event.target === window) shut(); });
addEventListener("resize", shut);
addEventListener("scroll", (event) => { if (open && !event.composedPath().includes(open.host)) shut(); }, true);
HTMLSelectElement.prototype.showPicker = function () { if (dropdown(this)) show(this); };
