// An order in four steps: address, delivery, payment, review; it is placed at the very end.
Site.module("checkout", {
  view(c) {
    const item = (id) => c.content.items.find((i) => i.id === id);
    const way = (id) => c.content.ways.find((w) => w.id === id);
    const d = c.v.draft ??= { address: null, way: null, place: null, payment: null, gift: false, message: "", out: [] };
    const n = c.v.fresh ??= { name: "", street: "", town: "" };
    const lines = c.s.basket.filter((l) => !d.out.includes(l.id));
    const goods = lines.reduce((sum, l) => sum + l.count * item(l.id).price, 0);
    const fee = d.way ? way(d.way).price : 0;
    const steps = ["Address", "Delivery", "Payment", "Review"];
    const step = Math.max(0, ["address", "delivery", "payment", "review"].indexOf(c.path[0] || "address"));
    const to = (index) => { c.v.error = null; c.set(); c.go(["address", "delivery", "payment", "review"][index]); };
    const fail = (text) => c.set(() => (c.v.error = text));
    const full = (a) => `${a.name}, ${a.street}, ${a.town}`;
    if (c.path[0] === "thanks") {
      const last = c.s.orders.at(-1);
      return [ui.note(`Thank you! Order ${last.number} is placed.`), ui.table([c.word("item", "Item"), "Sum"], last.lines.map((l) =>
        [`${l.count} × ${item(l.id).name}`, c.money(l.count * item(l.id).price)])), h("p.muted", `Goes to ${full(last.address)}.`),
      h("p.total", {}, "Total ", h("b", c.money(last.total))), ui.button("orders", "My orders", () => c.go("orders"))];
    }
    if (c.path[0] === "orders")
      return [h("div.bar", {}, h("h2", "My orders"), ui.button("begin", "‹ Back to checkout", () => c.go())), ui.table(
        ["Order", "To", "Delivery", "Payment", "Total"], c.s.orders.map((o) => [h("b", o.number), full(o.address),
          way(o.way).name + (o.place ? `, ${o.place}` : ""), o.payment, c.money(o.total)]))];
    if (!c.s.basket.length) return [ui.note("There is nothing to check out."), ui.button("orders", "My orders", () => c.go("orders"))];
    const place = () => {
      if (!lines.length) return fail("There is nothing left in this order.");
      if (!d.address || !d.way || !d.payment) return fail("Something is missing in the steps before.");
      c.set(() => {
        c.s.orders.push({ number: "A-" + c.s.next++, lines: lines.map((l) => ({ ...l })), address: { ...d.address }, way: d.way,
          place: d.place, payment: d.payment, gift: d.gift ? d.message.trim() : null, total: goods + fee });
        c.s.basket = c.s.basket.filter((l) => d.out.includes(l.id));
        c.v.draft = c.v.fresh = null;
      });
      c.go("thanks");
    };
    const key = (a) => (a ? full(a) : "");
    const pick = (k, on, change, ...inside) => h("label.check.panel", { k, style: "width: 100%; padding: 12px 16px" },
      h("input", { type: "radio", name: k.split(":")[0], checked: on, onchange: () => c.set(change) }), h("div.grow", {}, inside));
    const views = [
      () => [h("h2", "Where should it go?"), h("div.stack", {}, c.content.addresses.map((a, i) =>
        pick(`address:${i}`, key(d.address) === full(a), () => { d.address = a; c.v.other = false; }, h("b", a.label), h("br"),
          h("span.muted", full(a)))),
      pick("address:new", c.v.other, () => { c.v.other = true; d.address = null; }, h("b", "Another address"))),
      c.v.other ? h("div.panel", { style: "margin-top: 10px" }, ui.field("Name", ui.input(c, "name", n, "name")),
        ui.field("Street and number", ui.input(c, "street", n, "street")), ui.field("Town", ui.input(c, "town", n, "town"))) : null,
      next(() => {
        if (c.v.other && n.name.trim() && n.street.trim() && n.town.trim())
          d.address = { label: "Other", name: n.name.trim(), street: n.street.trim(), town: n.town.trim() };
        return d.address ? to(1) : fail("Choose an address, or fill in all of a new one.");
      })],
      () => [h("h2", "How should it come?"), h("div.stack", {}, c.content.ways.map((w) =>
        pick(`way:${w.id}`, d.way === w.id, () => { d.way = w.id; d.place = null; }, h("b", w.name),
          ` · ${w.price ? c.money(w.price) : "free"}`,
          h("br"), h("span.muted", w.text)))),
      d.way === "pickup" ? h("div", { style: "margin-top: 12px" }, ui.field("Pick-up point",
        ui.select(c, "place", d.place, c.content.places, (v) => (d.place = v)))) : null,
      next(() => (!d.way ? fail("Choose a delivery.") : d.way === "pickup" && !d.place ? fail("Choose a pick-up point.") : to(2)))],
      () => [h("h2", "How do you pay?"), h("div.stack", {}, c.content.payments.map((p) =>
        pick(`pay:${p}`, d.payment === p, () => (d.payment = p), h("b", p)))),
      h("div", { style: "margin: 12px 0" }, ui.check(c, "gift", d, "gift", "This is a present: add a card with a message")),
      d.gift ? ui.field("Message on the card", ui.input(c, "message", d, "message")) : null,
      next(() => (d.payment ? to(3) : fail("Choose how to pay.")))],
      () => [h("h2", "Is everything right?"), ui.table(["To", "Delivery", "Payment", "Card"], [[d.address ? full(d.address) : "–",
        d.way ? way(d.way).name + (d.place ? `, ${d.place}` : "") : "–", d.payment || "–", d.gift ? `“${d.message}”` : "none"]]),
      h("p.muted", "Nothing is sent before you place the order."),
      h("div.row", {}, ui.button("back", "‹ Back", () => to(2)), ui.button("place-order", "Place the order", place, "primary"))],
    ];
    function next(onclick) {
      return h("div.row", { style: "margin-top: 16px" }, step ? ui.button("back", "‹ Back", () => to(step - 1)) : null,
        ui.button("next", "Continue", onclick, "primary"), c.v.error ? ui.note(c.v.error, "error") : null);
    }
    return [
      h("div.tabs", {}, steps.map((s, i) => h("span.tab" + (i === step ? ".here" : ""), { style: "padding: 7px 14px" }, `${i + 1}. ${s}`))),
      h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 320px" }, h("div", {}, views[step](),
        step === 3 && c.v.error ? ui.note(c.v.error, "error") : null),
      h("aside.panel", {}, h("h3", c.word("cart", "Your order")), lines.map((l) => h("div.row", {}, h("span.grow",
        `${l.count} × ${item(l.id).name}`),
        h("b", c.money(l.count * item(l.id).price)), ui.button(`out:${l.id}`, "Leave out", () => c.set(() => d.out.push(l.id)), "quiet"))),
      d.out.length ? ui.button("restore", `Bring back ${d.out.length} left out`, () => c.set(() => (d.out = [])), "quiet") : null,
      h("div.row", {}, h("span.grow.muted", "Delivery"), h("span", d.way ? (fee ? c.money(fee) : "free") : "–")),
      h("p.total", {}, "Total ", h("b", { k: "total" }, c.money(goods + fee))))),
    ];
  },
});
