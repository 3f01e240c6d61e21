// A list of things, each of which can be put into the cart; the cart with its quantities.
Site.module("cart", {
  badge: (c) => c.s.lines.reduce((n, line) => n + line.count, 0),
  view(c) {
    const item = (id) => c.content.items.find((i) => i.id === id);
    const line = (id) => c.s.lines.find((l) => l.id === id);
    const add = (id) => c.set(() => {
      if (line(id)) line(id).count += 1;
      else c.s.lines.push({ id, count: 1 });
      ui.toast(`${item(id).name} added`);
    });
    const change = (id, by) => c.set(() => {
      line(id).count += by;
      if (line(id).count <= 0) c.s.lines = c.s.lines.filter((l) => l.id !== id);
    });
    const drop = (id) => c.set(() => (c.s.lines = c.s.lines.filter((l) => l.id !== id)));
    if (c.path[0] === "lines") {
      const total = c.s.lines.reduce((sum, l) => sum + l.count * item(l.id).price, 0);
      return [
        ui.button("shop", "‹ " + c.word("continue", "Continue shopping"), () => c.go()),
        c.s.lines.length ? ui.table(["", c.word("item", "Item"), "Price", "Quantity", "Sum", ""], c.s.lines.map((l) => [
          ui.picture(item(l.id).hue), item(l.id).name, c.money(item(l.id).price),
          h("span.stepper", {}, ui.button(`less:${l.id}`, "−", () => change(l.id, -1)), h("b", { k: `count:${l.id}` }, String(l.count)),
            ui.button(`more:${l.id}`, "+", () => change(l.id, 1))),
          c.money(l.count * item(l.id).price), ui.button(`drop:${l.id}`, "Remove", () => drop(l.id), "quiet"),
        ])) : ui.note("Nothing here yet."),
        h("p.total", {}, "Total ", h("b", { k: "total" }, c.money(total))),
        c.s.lines.length ? ui.button("empty", "Remove all", () => c.set(() => (c.s.lines = [])), "quiet") : null,
      ];
    }
    return [
      h("div.bar", {}, h("span", `${c.content.items.length} ${c.word("items", "items")}`),
        ui.button("cart", c.word("cart", "Cart") + ` (${c.s.lines.length})`, () => c.go("lines"), "primary")),
      h("div.grid", {}, c.content.items.map((i) => h("article.card", {}, ui.picture(i.hue), h("h3", i.name),
        h("p", i.kind), h("p.price", c.money(i.price)), ui.button(`add:${i.id}`, c.word("add", "Add to cart"), () => add(i.id), "primary")))),
    ];
  },
});
