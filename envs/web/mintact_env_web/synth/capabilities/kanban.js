// A board of columns with cards, moved by buttons or by dragging; cards can be opened and edited.
Site.module("kanban", {
  view(c) {
    c.v.who ??= "all";
    const one = (id) => c.s.cards.find((x) => x.id === id);
    const at = (id) => c.s.columns.findIndex((x) => x.id === id);
    const move = (card, by) => c.set(() => (card.column = c.s.columns[at(card.column) + by].id));
    const people = [[null, "Nobody"], ...c.content.people];

    if (c.path[0] === "card" && one(c.path[1])) {
      const card = one(c.path[1]);
      if (c.v.draft?.id !== card.id) c.v.draft = { ...card };
      const d = c.v.draft;
      const close = () => { c.v.draft = null; c.go(); };
      const save = () => {
        if (!d.title.trim()) return;
        c.keep(() => Object.assign(card, { ...d, title: d.title.trim() }));
        close();
        ui.toast("Card saved");
      };
      return h("div.panel", { style: "max-width: 620px" }, h("div.bar", {}, h("h2", "Card"),
        h("span.tag", c.s.columns[at(card.column)].name)),
        ui.field("Title", ui.input(c, "title", d, "title")),
        h("div.row", { style: "gap: 20px" }, ui.field("Assigned to", ui.select(c, "who", d.who, people, (v) => (d.who = v), "Nobody")),
          ui.field("Label", ui.select(c, "label", d.label, c.content.labels, (v) => (d.label = v)))),
        ui.field("Column", ui.select(c, "column", d.column, c.s.columns.map((x) => [x.id, x.name]), (v) => (d.column = v))),
        h("div.row", {}, ui.button("save", "Save", save, "primary"), ui.button("back", "Back to the board", close),
          ui.button("delete", "Delete card", () => ui.dialog("Delete this card?", h("p", card.title), h("div.row", {},
            ui.button("yes", "Delete", () => {
              c.keep(() => (c.s.cards = c.s.cards.filter((x) => x !== card)));
              ui.close();
              close();
            }, "danger"),
            ui.button("no", "Keep", () => ui.close()))), "quiet")));
    }
    const add = (column) => {
      const title = (c.v.text || "").trim();
      if (!title) return;
      c.set(() => {
        c.s.cards.push({ id: `n${c.s.next++}`, title, column, who: null, label: c.content.labels[0] });
        c.v.text = "";
        c.v.adding = null;
      });
    };
    const rename = (column) => {
      const name = (c.v.text || "").trim();
      if (name) c.set(() => { column.name = name; c.v.renaming = null; });
    };
    const shown = c.s.cards.filter((x) => c.v.who === "all" || x.who === c.v.who);
    const slip = (card) => ui.draggable(h("div.slip", { k: `slip:${card.id}` },
      h("b", { k: `card:${card.id}`, style: "cursor: pointer; display: block", onclick: () => c.go("card", card.id) }, card.title),
      h("div.row", { style: "margin: 6px 0 0; gap: 5px" }, h("span.tag", card.label), h("small.grow", card.who || "nobody"),
        at(card.column) > 0 ? h("button", { k: `left:${card.id}`, title: "One column to the left", style: "padding: 0 8px", type: "button",
          onclick: () => move(card, -1) }, "‹") : null,
        at(card.column) < c.s.columns.length - 1 ? h("button", { k: `right:${card.id}`, title: "One column to the right",
          style: "padding: 0 8px", type: "button", onclick: () => move(card, 1) }, "›") : null)),
    (column) => c.set(() => (card.column = column)));
    return [
      h("div.bar", {}, h("span.muted", { k: "shown" }, `${shown.length} ${shown.length === 1 ? "card" : "cards"}`),
        h("div.row", { style: "margin: 0" }, h("span", "Show cards of"),
          ui.select(c, "filter", c.v.who, [["all", "everybody"], ...c.content.people], (v) => (c.v.who = v)))),
      h("div.board", {}, c.s.columns.map((column) => {
        const cards = shown.filter((x) => x.column === column.id);
        return h("div.column", { k: `column:${column.id}`, "data-drop": column.id },
          c.v.renaming === column.id ? h("div.row", {}, ui.input(c, "column-name", c.v, "text"),
            ui.button("rename-now", "Save", () => rename(column), "primary")) : h("div.row", {},
            h("h3.grow", { style: "margin: 0" }, column.name, " ", h("small", String(cards.length))),
            h("button.quiet", { k: `rename:${column.id}`, type: "button", style: "padding: 0 4px", onclick: () => c.set(() => {
              c.v.renaming = column.id; c.v.adding = null; c.v.text = column.name; }) }, "rename")),
          cards.map(slip),
          c.v.adding === column.id ? h("div", {}, ui.input(c, "new-title", c.v, "text", { placeholder: "What is to be done?",
            onkeydown: (e) => e.key === "Enter" && add(column.id) }), h("div.row", { style: "margin-top: 6px" },
            ui.button("add-now", "Add", () => add(column.id), "primary"),
            ui.button("no-add", "Cancel", () => c.set(() => (c.v.adding = null)), "quiet")))
            : ui.button(`add:${column.id}`, "+ Add a card", () => c.set(() => {
              c.v.adding = column.id;
              c.v.renaming = null;
              c.v.text = "";
            }), "quiet"));
      })),
    ];
  },
});
