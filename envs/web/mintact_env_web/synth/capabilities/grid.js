// A table of records: cells edited in place, rows marked and changed together, columns hidden, sorting.
Site.module("grid", {
  view(c) {
    const all = [["name", c.word("item", "Item")], ["kind", "Kind"], ["place", "Place"], ["price", "Price"],
      ["stock", "Stock"], ["status", "Status"]];
    c.v.marked ??= [];
    c.v.sort ??= null;
    c.v.down ??= false;
    c.v.kind ??= "all";
    c.v.place ??= "all";
    const columns = all.filter(([key]) => !c.s.hidden.includes(key));
    const shown = c.s.rows.filter((r) => (c.v.kind === "all" || r.kind === c.v.kind) && (c.v.place === "all" || r.place === c.v.place));
    if (c.v.sort) shown.sort((a, b) => (a[c.v.sort] < b[c.v.sort] ? -1 : a[c.v.sort] > b[c.v.sort] ? 1 : 0) * (c.v.down ? -1 : 1));
    const marked = shown.filter((r) => c.v.marked.includes(r.id));
    const rows = (change) => c.set(() => { marked.forEach(change); c.v.marked = []; });
    const begin = (r, key) => c.set(() => { c.v.cell = `${r.id}:${key}`; c.v.text = String(r[key]); });
    const end = (r, key) => {
      const text = c.v.text.trim(), number = key === "price" || key === "stock";
      if (!text || (number && !/^\d+$/.test(text))) return ui.toast(number ? "Only whole numbers" : "Not empty, please");
      c.set(() => { r[key] = number ? +text : text; c.v.cell = null; });
    };
    const cell = (r, key) => {
      if (key === "status") return h("span.tag", r.status);
      const text = key === "price" ? c.money(r.price) : String(r[key]);
      if (key === "kind" || key === "place") return text;
      if (c.v.cell !== `${r.id}:${key}`)
        return h("span", { k: `cell:${r.id}:${key}`, title: "Click to edit", style: "cursor: text; border-bottom: 1px dashed var(--line)",
          onclick: () => begin(r, key) }, key === "name" ? h("b", text) : text);
      return h("span.row", { style: "margin: 0; flex-wrap: nowrap; gap: 4px" },
        ui.input(c, "value", c.v, "text", { style: "padding: 3px 6px; min-width: 70px",
          onkeydown: (e) => (e.key === "Enter" ? end(r, key) : e.key === "Escape" && c.set(() => (c.v.cell = null))) }),
      h("button.primary", { k: "ok", type: "button", style: "padding: 3px 9px", onclick: () => end(r, key) }, "OK"));
    };
    const head = ([key, label]) => h("button", { k: `sort:${key}`, type: "button",
      style: "padding: 0; border: 0; background: none; font-weight: 600",
      onclick: () => c.set(() => { c.v.down = c.v.sort === key && !c.v.down; c.v.sort = key; }) },
    label, c.v.sort === key ? (c.v.down ? " ▾" : " ▴") : "");
    const box = (k, checked, onchange) => h("input", { type: "checkbox", k, checked, onchange, style: "width: 17px; height: 17px" });
    const toggled = (list, x) => (list.includes(x) ? list.filter((y) => y !== x) : [...list, x]);
    const mark = (r) => c.set(() => (c.v.marked = toggled(c.v.marked, r.id)));
    const remove = () => ui.dialog(`Delete ${marked.length} ${marked.length === 1 ? "row" : "rows"}?`,
      h("p", marked.map((r) => r.name).join(", ")), h("div.row", {}, ui.button("yes", "Delete", () => {
        c.keep(() => { c.s.rows = c.s.rows.filter((r) => !marked.includes(r)); c.v.marked = []; });
        ui.close();
      }, "danger"), ui.button("no", "Keep", () => ui.close())));
    const sum = shown.reduce((n, r) => n + r.stock, 0);
    return [
      h("div.bar", {}, h("div.row", { style: "margin: 0" },
        ui.select(c, "by-kind", c.v.kind, [["all", "All kinds"], ...c.content.kinds], (v) => { c.v.kind = v; c.v.marked = []; }),
        ui.select(c, "by-place", c.v.place, [["all", "All places"], ...c.content.places], (v) => { c.v.place = v; c.v.marked = []; })),
      h("div.select", {}, ui.button("columns", "Columns ▾", () => c.set(() => (c.v.columns = !c.v.columns)), "picker"),
        c.v.columns ? h("div.options", { style: "padding: 6px 12px" }, all.slice(1).map(([key, label]) =>
          h("label.check", { k: `column:${key}` }, h("input", { type: "checkbox", checked: !c.s.hidden.includes(key),
            onchange: () => c.set(() => (c.s.hidden = toggled(c.s.hidden, key))) }), h("span", label)))) : null)),
      marked.length ? h("div.panel.row", {}, h("b", `${marked.length} selected`),
        ui.select(c, "set-status", null, c.content.statuses, (v) => rows((r) => (r.status = v)), "Set status…"),
        ui.select(c, "set-place", null, c.content.places, (v) => rows((r) => (r.place = v)), "Move to…"),
        ui.button("half", "Halve the price", () => rows((r) => (r.price = Math.ceil(r.price / 2)))),
        ui.button("delete", "Delete", remove, "quiet")) : null,
      ui.table([box("mark-all", shown.length > 0 && marked.length === shown.length, () => c.set(() => (c.v.marked =
        marked.length === shown.length ? [] : shown.map((r) => r.id)))), ...columns.map(head)], shown.map((r) =>
        [box(`mark:${r.id}`, c.v.marked.includes(r.id), () => mark(r)), ...columns.map(([key]) => cell(r, key))])),
      shown.length ? null : ui.note("No row fits."),
      h("p.muted", `${shown.length} of ${c.s.rows.length} rows · stock `, h("b", { k: "sum" }, String(sum))),
    ];
  },
});
