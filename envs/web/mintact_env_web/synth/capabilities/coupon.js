// An order and the codes one can apply to it: each has a rule, two of a kind do not go together.
Site.module("coupon", {
  view(c) {
    const item = (id) => c.content.items.find((i) => i.id === id);
    const code = (text) => c.content.codes.find((x) => x.code === text);
    const goods = c.s.lines.reduce((sum, l) => sum + l.count * item(l.id).price, 0);
    const problem = (x) => {
      if (x.least && goods < x.least) return `needs goods for at least ${c.money(x.least)}`;
      if (x.kind && !c.s.lines.some((l) => item(l.id).kind === x.kind)) return `only for ${x.kind}`;
      return null;
    };
    const worth = (x) => (x.type === "delivery" ? c.content.delivery
      : x.type === "amount" ? Math.min(x.value, goods)
        : (x.value * c.s.lines.reduce((s, l) => s + (!x.kind || item(l.id).kind === x.kind ? l.count * item(l.id).price : 0), 0)) / 100);
    const apply = () => c.set(() => {
      const x = code((c.v.typed || "").trim().toUpperCase());
      c.v.error = !x ? "We do not know this code."
        : c.s.applied.includes(x.code) ? "This code is applied already."
          : problem(x) ? `${x.code} ${problem(x)}.`
            : x.type !== "delivery" && c.s.applied.some((a) => code(a).type !== "delivery")
              ? "Only one discount code for each order. Remove the other one first." : null;
      if (!c.v.error) { c.s.applied.push(x.code); c.v.typed = ""; }
    });
    const change = (line, by) => c.set(() => {
      line.count = Math.max(1, line.count + by);
      c.s.applied = c.s.applied.filter((a) => !problem(code(a)));
    });
    const off = c.s.applied.reduce((sum, a) => sum + worth(code(a)), 0);
    return h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 350px" },
      h("div", {}, h("h2", c.word("cart", "Your order")),
        ui.table([c.word("item", "Item"), "Category", "Price", "Quantity", "Sum"], c.s.lines.map((l) => [
          h("b", item(l.id).name), item(l.id).kind, c.money(item(l.id).price),
          h("span.stepper", {}, ui.button(`less:${l.id}`, "−", () => change(l, -1)), h("b", String(l.count)),
            ui.button(`more:${l.id}`, "+", () => change(l, 1))), c.money(l.count * item(l.id).price)])),
        h("h2", "Our codes"), h("div.list", {}, c.content.codes.map((x) => h("div", {}, h("span.tag.strong", x.code),
          h("span.grow", x.text), h("small", x.type === "delivery" ? "goes with any code" : ""))))),
      h("aside.panel", {}, h("h3", "Have a code?"),
        h("div.row", {}, h("div.grow", {}, ui.input(c, "code", c.v, "typed", { placeholder: "Code" })), ui.button("apply", "Apply", apply,
          "primary")),
        c.v.error ? ui.note(c.v.error, "error") : null,
        c.s.applied.map((a) => h("div.row", {}, h("span.tag.strong", a), h("span.grow", "− " + c.money(worth(code(a)))),
          ui.button(`drop:${a}`, "Remove", () => c.set(() => { c.s.applied = c.s.applied.filter((x) => x !== a); c.v.error = null; }),
            "quiet"))),
        h("div.row", {}, h("span.grow.muted", "Goods"), h("span", { k: "goods" }, c.money(goods))),
        h("div.row", {}, h("span.grow.muted", "Delivery"), h("span", c.money(c.content.delivery))),
        h("div.row", {}, h("span.grow.muted", "Saved"), h("span", { k: "saved" }, "− " + c.money(off))),
        h("p.total", {}, "To pay ", h("b", { k: "total" }, c.money(goods + c.content.delivery - off)))));
  },
});
