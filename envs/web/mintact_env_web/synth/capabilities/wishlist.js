// Things one can save to lists; lists one can make, share, tidy and throw away.
Site.module("wishlist", {
  badge: (c) => c.s.lists.length,
  view(c) {
    const item = (id) => c.content.items.find((i) => i.id === id);
    const list = (id) => c.s.lists.find((l) => l.id === id);
    const close = () => c.set(() => { c.v.saving = c.v.moving = c.v.removing = null; c.v.title = ""; });
    const put = (id, into) => {
      if (!into.lines.some((l) => l.id === id)) into.lines.push({ id, wish: "Nice to have", note: "" });
    };
    const create = () => {
      const made = { id: "l" + c.s.made++, name: c.v.title.trim(), shared: false, lines: [] };
      c.s.lists.push(made);
      return made;
    };
    const veil = (title, ...children) => h("div.veil", {}, h("div.dialog", { role: "dialog" }, h("h2", title), ...children));
    const saving = () => veil(`Save “${item(c.v.saving).name}” to…`,
      h("div.list", {}, c.s.lists.map((l) => h("button", { k: `into:${l.id}`, onclick: () => { put(c.v.saving, l); close(); } },
        h("span.grow", l.name), h("small", `${l.lines.length} saved`)))),
      h("div.row", { style: "margin-top: 14px" }, h("div.grow", {}, ui.input(c, "new-name", c.v, "title",
        { placeholder: "Name of a new list" })),
        ui.button("create", "Create and save", () => { if ((c.v.title || "").trim()) { put(c.v.saving, create()); close(); } }, "primary")),
      ui.button("close", "Cancel", close, "quiet"));
    const moving = (from) => veil(`Move “${item(c.v.moving).name}” to…`,
      h("div.list", {}, c.s.lists.filter((l) => l !== from).map((l) => h("button", { k: `to:${l.id}`, onclick: () => {
        put(c.v.moving, l); from.lines = from.lines.filter((x) => x.id !== c.v.moving); close(); } }, l.name))),
      h("div.row", { style: "margin-top: 14px" }, ui.button("close", "Cancel", close)));
    const here = list(c.path[0]);
    if (here) {
      const total = here.lines.reduce((sum, l) => sum + item(l.id).price, 0);
      const edit = here.lines.find((l) => l.id === c.v.edit);
      return [
        h("div.bar", {}, ui.button("back", "‹ All lists", () => c.go()), h("div.row", { style: "margin: 0" },
          ui.check(c, "shared", here, "shared", "Anyone with the link can see it"),
          ui.button("delete", "Delete list", () => c.set(() => (c.v.removing = true))))),
        h("h2", here.name, " ", h("span.tag", here.shared ? "Shared" : "Private")),
        here.lines.length ? ui.table(["", c.word("item", "Item"), "Price", "Wish", "Note", ""], here.lines.map((l) => [
          ui.picture(item(l.id).hue), h("b", item(l.id).name), c.money(item(l.id).price), h("span.tag", l.wish), l.note || h("small", "–"),
          h("div.row", { style: "margin: 0; gap: 4px" },
            ui.button(`edit:${l.id}`, "Edit", () => c.set(() => { c.v.edit = l.id; c.v.wish = l.wish; c.v.note = l.note; })),
            ui.button(`move:${l.id}`, "Move", () => c.set(() => (c.v.moving = l.id))),
            ui.button(`drop:${l.id}`, "Remove", () => c.set(() => (here.lines = here.lines.filter((x) => x !== l))), "quiet")),
        ])) : ui.note("This list is empty."),
        h("p.total", {}, "Together ", h("b", { k: "total" }, c.money(total))),
        edit ? h("div.panel", {}, h("h3", `Edit “${item(edit.id).name}”`),
          h("div.row", {}, ["Must have", "Nice to have", "Only on sale"].map((w) => ui.radio(c, "wish", c.v, "wish", w, w))),
          ui.field("Note", ui.input(c, "note", c.v, "note")),
          h("div.row", {}, ui.button("keep", "Save",
            () => c.set(() => { edit.wish = c.v.wish; edit.note = c.v.note.trim(); c.v.edit = null; }), "primary"),
            ui.button("undo", "Cancel", () => c.set(() => (c.v.edit = null))))) : null,
        c.v.moving ? moving(here) : null,
        c.v.removing ? veil("Delete this list?", h("p", `“${here.name}” and what is on it will be gone.`), h("div.row", {},
          ui.button("sure", "Delete", () => { c.s.lists = c.s.lists.filter((l) => l !== here); c.v.removing = null; c.set(); c.go(); },
            "danger"),
          ui.button("close", "Keep it", close))) : null,
      ];
    }
    return [
      h("h2", "My lists"),
      h("div.row", { style: "margin-bottom: 22px" }, c.s.lists.map((l) => h("button", { k: `list:${l.id}`, onclick: () => c.go(l.id) },
        h("b", l.name), " ", h("small", `${l.lines.length} saved · ${l.shared ? "shared" : "private"}`)))),
      h("h2", `Discover ${c.word("items", c.content.many)}`),
      h("div.grid", {}, c.content.items.map((i) => {
        const on = c.s.lists.filter((l) => l.lines.some((x) => x.id === i.id)).length;
        return h("article.card", {}, ui.picture(i.hue), h("h3", i.name), h("p", i.kind, on ? ` · on ${on} list${on > 1 ? "s" : ""}` : ""),
          h("p.price", c.money(i.price)), ui.button(`save:${i.id}`, "♡ Save", () => c.set(() => (c.v.saving = i.id))));
      })),
      c.v.saving ? saving() : null,
    ];
  },
});
