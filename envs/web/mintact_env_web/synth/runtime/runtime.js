// The shell of every synthetic site: state, routes, components. No framework, no network.
// State lies in localStorage under one key, one part for each module; what is only a matter of the
// view (open menus, drafts, the current page) lives in `view`, which no check looks at.
"use strict";
const Site = (() => {
  const KEY = "site";
  const modules = {};
  let content, state, open = null;

  // ---- elements ------------------------------------------------------------------------------
  // h("button.primary", {k: "add:i1", onclick: f}, "Add", …): children may be text, nodes, lists, null
  function h(name, attributes, ...children) {
    const [tag, ...classes] = name.split(".");
    const svg = ["svg", "path", "circle", "rect", "line", "g", "polygon", "text"].includes(tag);
    const node = svg
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag || "div");
    if (classes.length) node.setAttribute("class", classes.join(" "));
    if (attributes === null || typeof attributes !== "object" || attributes instanceof Node ||
        Array.isArray(attributes)) {
      children.unshift(attributes);
      attributes = {};
    }
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "k") node.dataset.k = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (key === "value" || key === "checked" || key === "disabled") node[key] = value;
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
    return node;
  }

  // ---- state ---------------------------------------------------------------------------------
  function load() {
    content = JSON.parse(document.getElementById("content").textContent);
    const saved = localStorage.getItem(KEY);
    state = saved ? JSON.parse(saved) : { view: {} };
    for (const name of content.modules) state[name] ??= structuredClone(content.parts[name].state);
    save();
  }
  function save() {
    localStorage.setItem(KEY, JSON.stringify(state));
  }

  // ---- routes --------------------------------------------------------------------------------
  // #/module/part/part…; everything after the module is the module's own business
  function path() {
    return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  }
  function go(...parts) {
    const next = "#/" + parts.map((part) => encodeURIComponent(part)).join("/");
    if (location.hash === next) render();
    else location.hash = next;
  }

  // What a module's view gets: `c.s` its state, `c.content` its content, `c.v` its view values.
  function context(name) {
    state.view[name] ??= {};
    return {
      name,
      s: state[name],
      v: state.view[name],
      content: content.parts[name],
      site: content.site,
      path: path().slice(1),
      go: (...parts) => go(name, ...parts),
      // change something, keep it, draw again
      set: (change) => (change && change(), save(), render()),
      // keep what was typed without drawing again, so that the caret stays
      keep: (change) => (change && change(), save()),
      word: (key, fallback) => content.site.labels[key] ?? fallback,
      money: (amount) => content.site.currency + (Number.isInteger(amount) ? amount : amount.toFixed(2)),
    };
  }

  // ---- drawing -------------------------------------------------------------------------------
  function render() {
    const top = scrollY, name = path()[0], known = modules[name];
    const app = document.getElementById("app");
    app.replaceChildren(header(name), h("main", {}, known ? page(name, known) : home()), footer());
    if (open) app.append(open);
    scrollTo(0, top);
  }
  function page(name, module) {
    const c = context(name);
    const title = content.parts[name].title;
    return h("section.page", { "data-module": name }, h("h1", title), module.view(c));
  }
  function header(current) {
    const links = content.modules.map((name) =>
      h("a", { href: "#/" + name, k: "nav:" + name, class: name === current ? "here" : "" },
        content.parts[name].title, badge(name)));
    return h("header.top", {},
      h("a.brand", { href: "#/", k: "nav:home" }, h("span.logo", {}, content.site.brand[0]), content.site.brand),
      h("nav", {}, links));
  }
  function badge(name) {
    const count = modules[name] && modules[name].badge ? modules[name].badge(context(name)) : 0;
    return count ? h("span.badge", {}, String(count)) : null;
  }
  function home() {
    const cards = content.modules.map((name) =>
      h("a.card.tile", { href: "#/" + name, k: "tile:" + name },
        ui.picture(content.parts[name].hue ?? 0), h("h3", content.parts[name].title),
        h("p", content.parts[name].about ?? "")));
    return [
      h("section.hero", {}, h("div", {}, h("h1", content.site.tagline), h("p", content.site.about),
        h("a.button.primary", { href: "#/" + content.modules[0], k: "start" }, content.parts[content.modules[0]].title)),
        ui.picture(content.site.hue, "large")),
      h("section.tiles", {}, cards),
    ];
  }
  function footer() {
    return h("footer", {}, h("span", "© " + content.site.brand), h("span", content.site.address),
      h("span", "Terms · Privacy · Help"));
  }

  // ---- days ----------------------------------------------------------------------------------
  // days are "2025-03-14", months "2025-03"; never the clock's
  const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December"];
  const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  const utc = (day) => new Date(day + "T00:00:00Z");
  const dates = {
    names: DAYS,
    add: (day, by) => new Date(utc(day).getTime() + by * 864e5).toISOString().slice(0, 10),
    weekday: (day) => (utc(day).getUTCDay() + 6) % 7,
    said: (day) => `${DAYS[dates.weekday(day)]} ${+day.slice(8)} ${MONTHS[+day.slice(5, 7) - 1]} ${day.slice(0, 4)}`,
    title: (month) => `${MONTHS[+month.slice(5, 7) - 1]} ${month.slice(0, 4)}`,
    shift: (month, by) => new Date(Date.UTC(+month.slice(0, 4), +month.slice(5, 7) - 1 + by, 1)).toISOString().slice(0, 7),
    // the weeks that a month touches, from Monday; days of other months are in them too
    weeks: (month) => {
      const first = dates.add(month + "-01", -dates.weekday(month + "-01")), weeks = [];
      for (let day = first; day.slice(0, 7) <= month; day = dates.add(day, 7)) weeks.push(DAYS.map((_, i) => dates.add(day, i)));
      return weeks;
    },
  };

  // ---- components ----------------------------------------------------------------------------
  const ui = {
    button: (k, text, onclick, kind = "") => h("button" + (kind ? "." + kind : ""), { k, onclick, type: "button" }, text),
    field: (label, input) => h("label.field", {}, h("span", label), input),
    // a text field whose value is kept in `bag[key]` while one types
    input: (c, k, bag, key, more = {}) => h("input", { k, value: bag[key] ?? "", autocomplete: "off", spellcheck: "false",
      oninput: (e) => c.keep(() => (bag[key] = e.target.value)), ...more }),
    area: (c, k, bag, key, more = {}) => h("textarea", { k, value: bag[key] ?? "", rows: 4, spellcheck: "false",
      oninput: (e) => c.keep(() => (bag[key] = e.target.value)), ...more }),
    check: (c, k, bag, key, label) => h("label.check", { k }, h("input", { type: "checkbox", checked: !!bag[key],
      onchange: (e) => c.set(() => (bag[key] = e.target.checked)) }), h("span", label)),
    radio: (c, k, bag, key, value, label) => h("label.check", { k: `${k}:${value}` }, h("input", { type: "radio", name: k,
      checked: bag[key] === value, onchange: () => c.set(() => (bag[key] = value)) }), h("span", label)),
    // a drop-down; `options` are values or [value, label]; its options are `k:value`
    select: (c, k, value, options, onpick, placeholder = "Choose…") => {
      const pairs = options.map((o) => (Array.isArray(o) ? o : [o, String(o)]));
      const shown = pairs.find(([v]) => v === value);
      const isOpen = state.view.open === k;
      return h("div.select" + (isOpen ? ".open" : ""), {},
        h("button.picker", { k, type: "button", onclick: () => c.set(() => (state.view.open = isOpen ? null : k)) },
          shown ? shown[1] : placeholder, h("span.arrow", "▾")),
        isOpen ? h("div.options", {}, pairs.map(([v, label]) =>
          h("button.option" + (v === value ? ".chosen" : ""), { k: `${k}:${v}`, type: "button",
            onclick: () => { state.view.open = null; onpick(v); save(); render(); } }, label))) : null);
    },
    tabs: (c, k, current, pairs, onpick) => h("div.tabs", {}, pairs.map(([v, label]) =>
      h("button.tab" + (v === current ? ".here" : ""), { k: `${k}:${v}`, type: "button", onclick: () => onpick(v) }, label))),
    pager: (c, page, pages, onpage) => h("div.pager", {},
      h("button", { k: "page:previous", type: "button", disabled: page <= 1, onclick: () => onpage(page - 1) }, "‹ Previous"),
      h("span", `Page ${page} of ${pages}`),
      h("button", { k: "page:next", type: "button", disabled: page >= pages, onclick: () => onpage(page + 1) }, "Next ›")),
    table: (heads, rows) => h("div.scroll", {}, h("table", {}, h("thead", {}, h("tr", {}, heads.map((x) => h("th", {}, x)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((x) => h("td", {}, x))))))),
    stars: (value) => h("span.stars", { title: value + " of 5" }, "★".repeat(Math.round(value)) + "☆".repeat(5 - Math.round(value)), h("small", ` ${value.toFixed(1)}`)),
    // a month of days as buttons `k:2025-03-14`; `look(day)` says {chosen, disabled, mark} of each
    month: (c, k, month, onmonth, look, onpick) => h("div.month", {}, h("div.bar", {},
      ui.button(`${k}:previous`, "‹", () => onmonth(dates.shift(month, -1))), h("b", dates.title(month)),
      ui.button(`${k}:next`, "›", () => onmonth(dates.shift(month, 1)))),
    h("div.days", {}, DAYS.map((d) => h("small", d)), dates.weeks(month).flat().map((day) => {
      if (day.slice(0, 7) !== month) return h("span");
      const { chosen, disabled, mark } = look(day);
      return h("button.day" + (chosen ? ".on" : mark ? ".marked" : ""), { k: `${k}:${day}`, type: "button", disabled,
        onclick: () => onpick(day) }, String(+day.slice(8)));
    }))),
    note: (text, kind = "info") => h("p.note." + kind, {}, text),
    // a dialog over the page; `close()` without arguments removes it
    dialog: (title, ...children) => {
      open = h("div.veil", {}, h("div.dialog", { role: "dialog" }, h("h2", title), ...children));
      render();
    },
    close: () => { open = null; render(); },
    // a message that stays until one does something else; clicks go through it
    toast: (text) => {
      document.querySelector(".toast")?.remove();
      document.body.append(h("div.toast", { k: "toast" }, text));
      addEventListener("pointerdown", () => document.querySelector(".toast")?.remove(), { once: true, capture: true });
    },
    picture: (hue, size = "") => motif(content.site.motif, hue, size),
    // lets an element be dragged; `ondrop` gets the data-drop of what it is let go over
    draggable: (node, ondrop) => {
      node.classList.add("draggable");
      node.addEventListener("pointerdown", (down) => {
        const shift = (e) => [e.clientX - down.clientX, e.clientY - down.clientY];
        const move = (e) => {
          node.style.transform = `translate(${shift(e).join("px, ")}px)`;
          node.style.pointerEvents = Math.hypot(...shift(e)) > 6 ? "none" : "";
        };
        const up = (e) => {
          removeEventListener("pointermove", move);
          node.style.transform = node.style.pointerEvents = "";
          const over = document.elementsFromPoint(e.clientX, e.clientY).find((x) => !node.contains(x) && x.closest("[data-drop]"));
          if (over && Math.hypot(...shift(e)) > 6) ondrop(over.closest("[data-drop]").dataset.drop);
        };
        addEventListener("pointermove", move);
        addEventListener("pointerup", up, { once: true });
      });
      return node;
    },
    drawing: (name, hue, size = "") => motif(name, hue, size),
  };

  // ---- drawings ------------------------------------------------------------------------------
  const SHAPES = {
    box: [["rect", { x: 22, y: 34, width: 56, height: 42, rx: 3 }], ["path", { d: "M22 34l28-14 28 14-28 12z" }]],
    book: [["rect", { x: 28, y: 18, width: 44, height: 64, rx: 3 }], ["rect", { x: 36, y: 30, width: 28, height: 6 }]],
    leaf: [["path", { d: "M20 78C18 36 46 20 82 20 84 58 62 82 32 76z" }], ["path", { d: "M24 80L66 36", class: "thin" }]],
    wheel: [["circle", { cx: 50, cy: 50, r: 32 }], ["circle", { cx: 50, cy: 50, r: 12 }]],
    house: [["path", { d: "M16 50L50 20l34 30z" }], ["rect", { x: 26, y: 50, width: 48, height: 32 }]],
    heart: [["path", { d: "M50 82C18 60 14 42 22 30c8-11 22-9 28 4 6-13 20-15 28-4 8 12 4 30-28 52z" }]],
    plate: [["circle", { cx: 50, cy: 52, r: 32 }], ["circle", { cx: 50, cy: 52, r: 19 }]],
    wave: [["path", { d: "M8 60q14-22 28 0t28 0 28 0v26H8z" }], ["circle", { cx: 70, cy: 28, r: 11 }]],
    note: [["rect", { x: 56, y: 18, width: 6, height: 50 }], ["circle", { cx: 48, cy: 70, r: 14 }]],
    screen: [["rect", { x: 16, y: 24, width: 68, height: 44, rx: 4 }], ["rect", { x: 38, y: 72, width: 24, height: 8 }]],
    peak: [["polygon", { points: "10,80 40,26 60,58 72,42 92,80" }], ["circle", { cx: 76, cy: 24, r: 9 }]],
    person: [["circle", { cx: 50, cy: 34, r: 16 }], ["path", { d: "M18 86c4-26 18-34 32-34s28 8 32 34z" }]],
  };
  function motif(name, hue, size) {
    const shapes = (SHAPES[name] || SHAPES.box).map(([tag, a], i) =>
      h(tag, { ...a, fill: `hsl(${(hue + 40 * i) % 360} 45% ${52 - 14 * i}%)` }));
    return h("svg.picture" + (size ? "." + size : ""), { viewBox: "0 0 100 100", "aria-hidden": "true",
      style: `background: hsl(${hue} 50% 88%)` }, ...shapes);
  }

  return {
    h, ui, dates,
    module: (name, definition) => (modules[name] = definition),
    start() {
      load();
      addEventListener("hashchange", () => { open = null; state.view.open = null; render(); scrollTo(0, 0); });
      render();
    },
    // of another module, to read; a module changes only its own
    state: (name) => state[name],
  };
})();
const { h, ui } = Site;
