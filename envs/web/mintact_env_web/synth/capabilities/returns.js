// Past orders, and sending something of them back: which, how many, why, and what one gets for it.
Site.module("returns", {
  view(c) {
    const item = (id) => c.content.items.find((i) => i.id === id);
    const order = c.content.orders.find((o) => o.number === c.path[1]);
    const sent = (number, id) => c.s.returns.filter((r) => r.order === number)
      .reduce((n, r) => n + (r.lines.find((l) => l.id === id)?.count || 0), 0);
    const what = (lines) => lines.map((l) => `${l.count} × ${item(l.id).name}`).join(", ");
    const late = (o) => o.until < c.content.today;
    const close = () => c.set(() => (c.v.stop = null));
    if (c.path[0] === "start" && order) {
      if (!c.v.draft || c.v.draft.order !== order.number)
        c.v.draft = { order: order.number, counts: {}, reason: null, refund: null, comment: "" };
      const d = c.v.draft, set = (id, n) => c.set(() => (d.counts[id] = n));
      const lines = order.lines.map((l) => ({ id: l.id, count: d.counts[l.id] || 0 })).filter((l) => l.count);
      const worth = lines.reduce((sum, l) => sum + l.count * item(l.id).price, 0);
      const send = () => {
        c.v.error = !lines.length ? "Choose what you send back."
          : !d.reason ? "Choose a reason." : !d.refund ? "Choose what you want for it." : null;
        if (c.v.error) return c.set();
        c.set(() => {
          c.s.returns.push({ id: "R" + c.s.next++, order: order.number, lines, reason: d.reason, refund: d.refund,
            comment: d.comment.trim() });
          c.v.draft = null;
          c.v.note = `Return R${c.s.next - 1} is announced. Bring it to us by ${order.until}.`;
        });
        return c.go("list");
      };
      return [
        h("div.bar", {}, ui.button("back", "‹ Orders", () => c.go()), h("span.muted", `Return by ${order.until}`)),
        h("h2", `Return from order ${order.number}`),
        h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 360px" }, h("div", {},
          ui.table(["", c.word("item", "Item"), "Price", "Ordered", "Send back"], order.lines.map((l) => {
            const left = l.count - sent(order.number, l.id), now = d.counts[l.id] || 0;
            return [ui.picture(item(l.id).hue), h("b", item(l.id).name), c.money(item(l.id).price), String(l.count),
              left ? h("span.stepper", {}, ui.button(`less:${l.id}`, "−", () => set(l.id, Math.max(0, now - 1))), h("b", `${now}`),
                ui.button(`more:${l.id}`, "+", () => set(l.id, Math.min(left, now + 1)))) : h("small", "sent back")];
          })), ui.button("all", "Send everything back", () => c.set(() => order.lines.forEach((l) => {
            d.counts[l.id] = l.count - sent(order.number, l.id); })))),
        h("div.panel", {}, ui.field("Reason", ui.select(c, "reason", d.reason, c.content.reasons, (v) => (d.reason = v))),
          h("h3", "What do you want for it?"), c.content.refunds.map((r) => ui.radio(c, "refund", d, "refund", r, r)),
          h("div", { style: "height: 12px" }), ui.field("Comment (optional)", ui.input(c, "comment", d, "comment")),
          c.v.error ? ui.note(c.v.error, "error") : null, h("p.total", {}, "Worth ", h("b", { k: "worth" }, c.money(worth))),
          ui.button("send", "Announce the return", send, "primary"))),
      ];
    }
    if (c.path[0] === "list") {
      const stop = c.s.returns.find((r) => r.id === c.v.stop), edit = c.s.returns.find((r) => r.id === c.v.edit);
      return [
        h("div.bar", {}, ui.button("back", "‹ Orders", () => c.go()), h("span.muted", `${c.s.returns.length} returns`)),
        c.v.note ? ui.note(c.v.note) : null,
        c.s.returns.length ? ui.table(["Return", "Order", "What", "Reason", "For it", ""], c.s.returns.map((r) => [h("b", r.id), r.order,
          what(r.lines), r.reason, h("span.tag", r.refund), h("div.row", { style: "margin: 0" },
            ui.button(`edit:${r.id}`, "Change", () => c.set(() => { c.v.edit = r.id; c.v.refund = r.refund; })),
            ui.button(`stop:${r.id}`, "Withdraw", () => c.set(() => (c.v.stop = r.id)), "quiet"))])) : ui.note("No return is on its way."),
        edit ? h("div.panel", {}, h("h3", `What do you want for ${edit.id}?`),
          c.content.refunds.map((r) => ui.radio(c, "refund", c.v, "refund", r, r)), h("div.row", { style: "margin-top: 10px" },
            ui.button("keep", "Save", () => c.set(() => { edit.refund = c.v.refund; c.v.edit = null; }), "primary"),
            ui.button("undo", "Cancel", () => c.set(() => (c.v.edit = null))))) : null,
        stop ? h("div.veil", {}, h("div.dialog", { role: "dialog" }, h("h2", `Withdraw return ${stop.id}?`), h("p",
          `You keep ${what(stop.lines)}.`),
          h("div.row", {}, ui.button("sure", "Withdraw", () => { c.s.returns = c.s.returns.filter((r) => r !== stop); close(); }, "danger"),
            ui.button("close", "Go back", close)))) : null,
      ];
    }
    return [
      h("div.bar", {}, h("span.muted", `Today is ${c.content.today}`),
        ui.button("returns", `My returns (${c.s.returns.length})`, () => c.go("list"))),
      h("div.stack", {}, c.content.orders.map((o) => h("article.panel", {}, h("div.bar", { style: "margin-bottom: 6px" },
        h("span", {}, h("b", `Order ${o.number}`), h("span.muted", ` of ${o.date}`)), h("b", c.money(o.lines.reduce((s,
          l) => s + l.count * item(l.id).price, 0)))),
      h("div", {}, what(o.lines)), h("div.row", { style: "margin: 8px 0 0" }, h("small.grow", { k: `until:${o.number}` },
        late(o) ? `Could be returned until ${o.until}` : `Can be returned until ${o.until}`),
      late(o) ? h("span.tag", "Too late to return") : ui.button(`start:${o.number}`, "Return something", () => c.go("start", o.number)))))),
    ];
  },
});
