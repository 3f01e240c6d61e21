// A map in its own coordinates: panned and zoomed with buttons, pins with cards, a marker, distances.
Site.module("mapview", {
  view(c) {
    const { pins, areas, kinds, away, wide, high } = c.content;
    const W = 640, H = 440;
    c.v.at ??= { ...c.content.start };
    c.v.hidden ??= {};
    const { x, y, zoom } = c.v.at;
    const px = (wx) => (wx - x) * zoom + W / 2, py = (wy) => (wy - y) * zoom + H / 2;
    const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
    const move = (dx, dy) => c.set(() => {
      c.v.at.x = clamp(x + (dx * 160) / zoom, 0, wide);
      c.v.at.y = clamp(y + (dy * 160) / zoom, 0, high);
    });
    const seen = (p) => px(p.x) > 24 && px(p.x) < W - 24 && py(p.y) > 24 && py(p.y) < H - 24;
    const pin = (id) => pins.find((p) => p.id === id);
    const world = (e) => {
      const box = document.querySelector("[data-map]").getBoundingClientRect();
      return { x: Math.round((e.clientX - box.x - W / 2) / zoom + x), y: Math.round((e.clientY - box.y - H / 2) / zoom + y) };
    };
    const place = (e) => c.set(() => { c.s.marker = world(e); c.v.placing = false; });
    const label = (wx, wy, text, size, more = {}) => h("text", { x: px(wx), y: py(wy), "font-size": size, "text-anchor": "middle",
      style: "pointer-events: none; paint-order: stroke; stroke: #fff; stroke-width: 3px", fill: "#33403a", ...more }, text);
    const ground = [
      h("rect", { x: 0, y: 0, width: W, height: H, fill: "#cfe0ea" }),
      h("rect", { x: px(0), y: py(0), width: wide * zoom, height: high * zoom, fill: "#eef0e6" }),
      c.content.roads.map((r) => h("line", { x1: px(r[0]), y1: py(r[1]), x2: px(r[2]), y2: py(r[3]), stroke: "#fff",
        "stroke-width": 13 * zoom })),
      areas.map((a) => [h("rect", { k: `area:${a.id}`, x: px(a.x), y: py(a.y), width: a.w * zoom, height: a.h * zoom, rx: 10,
        fill: a.fill }), label(a.x + a.w / 2, a.y + a.h / 2 - 26 / zoom, a.name, 13, { "font-style": "italic" })]),
    ];
    const dots = pins.filter((p) => zoom > 1 || !p.small).filter((p) => !c.v.hidden[p.kind] && seen(p)).map((p) => [
      h("circle", { k: `pin:${p.id}`, cx: px(p.x), cy: py(p.y), r: 11, stroke: c.s.chosen === p.id ? "#111" : "#fff", "stroke-width": 3,
        style: "cursor: pointer", fill: `hsl(${70 + 97 * kinds.indexOf(p.kind)} 60% 38%)`,
        onclick: (e) => { if (c.v.placing) return; e.stopPropagation(); c.set(() => (c.v.card = p.id)); } }),
      label(p.x, p.y + 26 / zoom, p.name, 12, { "font-weight": 700 })]);
    const m = c.s.marker;
    const marker = seen(m) ? [h("path", { k: "marker", d: `M${px(m.x)} ${py(m.y)}l-10 -22a11 11 0 1 1 20 0z`, fill: "#d11", stroke: "#fff",
      style: "cursor: grab", onpointerdown: (e) => { e.preventDefault(); c.v.dragging = true; } })] : [];
    const map = h("svg", { "data-map": "", viewBox: `0 0 ${W} ${H}`, width: W, height: H,
      style: "display: block; border: 1px solid var(--line); border-radius: var(--radius); user-select: none"
        + (c.v.placing ? "; cursor: crosshair" : ""),
      onclick: (e) => c.v.placing && place(e),
      onpointerleave: () => (c.v.dragging = false),
      onpointerup: (e) => { if (c.v.dragging) { c.v.dragging = false; place(e); } } }, ...ground.flat(Infinity), ...dots.flat(), ...marker);
    const ZOOMS = [0.5, 1, 2, 3];
    const zoomed = (by) => c.set(() => (c.v.at.zoom = ZOOMS[clamp(ZOOMS.indexOf(zoom) + by, 0, 3)]));
    const buttons = h("div.row", { style: "margin-top: 10px" }, ui.button("left", "←", () => move(-1, 0)), ui.button("right", "→",
      () => move(1, 0)),
      ui.button("up", "↑", () => move(0, -1)), ui.button("down", "↓", () => move(0, 1)),
      ui.button("in", "Zoom in +", () => zoomed(1)), ui.button("out", "Zoom out −", () => zoomed(-1)),
      ui.button("place", c.v.placing ? "Click on the map…" : "Set marker", () => c.set(() => (c.v.placing = !c.v.placing)),
        c.v.placing ? "primary" : ""));
    const layers = h("div.row", {}, h("span.muted", "Show:"), kinds.map((k) => h("label.check", { k: `show:${k}` }, h("input",
      { type: "checkbox",
      checked: !c.v.hidden[k], onchange: () => c.set(() => (c.v.hidden[k] = !c.v.hidden[k])) }), h("span",
        { style: `border-bottom: 3px solid hsl(${
      70 + 97 * kinds.indexOf(k)} 60% 38%)` }, k))));
    const card = c.v.card && pin(c.v.card);
    const saved = card && c.s.saved.includes(card.id);
    const details = card ? h("div.panel", {}, h("h3", { k: "card" }, card.name), h("p", {}, h("span.tag", card.kind)),
      h("p", card.street), h("p", { k: "hours" }, `Saturdays until ${card.until}`), h("p.muted", `Telephone ${card.phone}`),
      h("div.row", { style: "margin: 0" }, ui.button("choose", c.s.chosen === card.id ? "Your branch ✓" : "Choose this branch",
        () => c.set(() => (c.s.chosen = card.id)), "primary"),
      ui.button("save", saved ? "Remove from saved" : "Save", () => c.set(() =>
        (c.s.saved = saved ? c.s.saved.filter((id) => id !== card.id) : [...c.s.saved, card.id])))))
      : h("div.panel", {}, h("p.muted", "Click a pin to see its card. Small branches appear when you zoom in."));
    const ends = pins.map((p) => [p.id, p.name]), both = c.v.from && c.v.to && c.v.from !== c.v.to;
    const side = h("div.stack", {}, details,
      h("div.panel", {}, h("h3", "Your places"), h("p", {}, "Branch: ", h("b", pin(c.s.chosen).name)),
        h("p", {}, "Saved: ", c.s.saved.map((id) => pin(id).name).join(", ") || "none")),
      h("div.panel", {}, h("h3", "Distance"), h("div.stack", {}, ui.select(c, "from", c.v.from, ends, (v) => (c.v.from = v), "From…"),
        ui.select(c, "to", c.v.to, ends, (v) => (c.v.to = v), "To…"), h("b", { k: "distance" },
          both ? `${away[c.v.from][c.v.to]} km` : "–"))));
    return h("div.split", { style: "grid-template-columns: 640px minmax(0, 1fr)" }, h("div", {}, layers, map, buttons), side);
  },
});
