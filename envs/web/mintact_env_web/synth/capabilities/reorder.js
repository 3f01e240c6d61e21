// Two lists in an order of one's own: buttons and dragging; the order counts once it is saved.
Site.module("reorder", {
  view(c) {
    const { items, names } = c.content;
    const fresh = () => ({ now: [...c.s.now], later: [...c.s.later] });
    const d = (c.v.draft ??= fresh());
    const item = (id) => items.find((i) => i.id === id);
    const changed = JSON.stringify(d) !== JSON.stringify(fresh());
    const put = (list, id, at) => c.set(() => {
      const rest = d[list].filter((x) => x !== id);
      rest.splice(Math.max(0, Math.min(rest.length, at)), 0, id);
      d[list] = rest;
    });
    const other = (list) => (list === "now" ? "later" : "now");
    const shift = (list, id) => c.set(() => { d[list] = d[list].filter((x) => x !== id); d[other(list)].push(id); });
    const drop = (list, id) => (e) => {
      if (!c.v.held || !d[list].includes(c.v.held)) return;
      const held = c.v.held;
      e.stopPropagation();
      c.v.held = null;
      put(list, held, d[list].indexOf(id));
    };
    const row = (list, id, at) => h("div", { k: `row:${id}`, onpointerup: drop(list, id), style: "user-select: none" },
      h("span.muted", { k: `grip:${id}`, style: "cursor: grab; padding: 4px 6px", title: "Drag to move",
        onpointerdown: (e) => { e.preventDefault(); c.v.held = id; } }, "⠿"),
      h("b", { style: "width: 24px" }, `${at + 1}.`), ui.picture(item(id).hue, "small"),
      h("div.grow", {}, item(id).name, h("br"), h("small", `${item(id).kind} · ${c.money(item(id).price)}`)),
      h("div.row", { style: "margin: 0; gap: 4px" },
        h("button", { k: `top:${id}`, type: "button", title: "To the top", disabled: at === 0, onclick: () => put(list, id, 0) }, "⤒"),
        h("button", { k: `up:${id}`, type: "button", title: "Up", disabled: at === 0, onclick: () => put(list, id, at - 1) }, "↑"),
        h("button", { k: `down:${id}`, type: "button", title: "Down", disabled: at === d[list].length - 1,
          onclick: () => put(list, id, at + 1) }, "↓"),
        ui.button(`shift:${id}`, `To ${names[other(list)]}`, () => shift(list, id), "quiet")));
    const part = (list) => [h("h2", { style: "margin-top: 14px" }, names[list], h("small", ` (${d[list].length})`)),
      d[list].length ? h("div.list", {}, d[list].map((id, at) => row(list, id, at))) : ui.note("This list is empty.")];
    return h("div", { onpointerup: () => (c.v.held = null) },
      h("div.bar", {}, h("span.muted", changed ? "Not saved yet." : "Everything is saved."), h("div.row", { style: "margin: 0" },
        h("button", { k: "reset", type: "button", disabled: !changed, onclick: () => c.set(() => (c.v.draft = null)) }, "Undo changes"),
        h("button.primary", { k: "save", type: "button", disabled: !changed, onclick: () => {
          c.set(() => { c.s.now = [...d.now]; c.s.later = [...d.later]; c.v.draft = null; });
          ui.toast("Order saved");
        } }, "Save order"))),
      part("now"), part("later"));
  },
});
