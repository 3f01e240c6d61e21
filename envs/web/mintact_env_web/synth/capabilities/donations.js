// Giving money: a short form that grows with what one picks, looked over before it is sent.
Site.module("donations", {
  view(c) {
    const { purposes, presets, days } = c.content;
    const f = (c.v.form ??= { purpose: null, often: "once", preset: null, other: "", day: null, honour: false, name: "", receipt: false,
      street: "", town: "", anonymous: false });
    const purpose = (id) => purposes.find((p) => p.id === id).name;
    const amount = () => (f.preset === "other" ? Math.round(Number(f.other)) || 0 : f.preset ?? 0);
    const error = () => !f.purpose ? "Please choose what you give for." : amount() < 1 ? "Please choose an amount."
      : f.often === "monthly" && !f.day ? "On which day of the month?" : f.honour && !f.name.trim() ? "In whose honour do you give?"
      : f.receipt && !(f.street.trim() && f.town.trim()) ? "A receipt needs an address." : null;
    const gift = () => ({ purpose: f.purpose, often: f.often, amount: amount(), day: f.often === "monthly" ? f.day : null,
      honour: f.honour ? f.name.trim() : null, receipt: f.receipt ? `${f.street.trim()}, ${f.town.trim()}` : null,
        anonymous: f.anonymous });
    const rhythm = (g) => (g.often === "once" ? "once" : `every month on day ${g.day}`);
    if (c.path[0] === "check" && !error()) {
      const g = gift();
      return h("div.panel", { style: "max-width: 560px" }, h("h2", "Please check"), ui.table(["", ""], [["For", purpose(g.purpose)],
        ["Amount", h("b", c.money(g.amount))], ["How often", rhythm(g)], g.honour ? ["In honour of", g.honour] : null,
        g.receipt ? ["Receipt to", g.receipt] : null, ["Shown as", g.anonymous ? "Anonymous" : "With your name"]].filter(Boolean)),
      h("div.row", { style: "margin: 0" }, ui.button("give", "Give now", () => {
        c.keep(() => { c.s.gifts.push({ id: `g${c.s.gifts.length + c.s.stopped}`, ...g }); c.v.form = null; c.v.note = null; });
        c.go();
        ui.toast("Thank you!");
      }, "primary"), ui.button("back", "Change something", () => c.go())));
    }
    const preset = (value, label) => h("button" + (f.preset === value ? ".primary" : ""), { k: `amount:${value}`, type: "button",
      onclick: () => c.set(() => (f.preset = value)) }, label);
    const form = h("div.panel", {}, h("h2", "Give"), c.v.note ? ui.note(c.v.note, "error") : null,
      ui.field("For", ui.select(c, "purpose", f.purpose, purposes.map((p) => [p.id, p.name]), (v) => (f.purpose = v))),
      h("div.row", {}, ui.radio(c, "often", f, "often", "once", "Once"), ui.radio(c, "often", f, "often", "monthly", "Every month")),
      f.often === "monthly" ? ui.field("On day", ui.select(c, "day", f.day, days, (v) => (f.day = v))) : null,
      h("div.row", {}, presets.map((n) => preset(n, c.money(n))), preset("other", "Other")),
      f.preset === "other" ? ui.field("Amount", ui.input(c, "other", f, "other")) : null,
      ui.check(c, "honour", f, "honour", "In honour of somebody"),
      f.honour ? ui.field("Name", ui.input(c, "name", f, "name")) : null,
      ui.check(c, "receipt", f, "receipt", "Send me a receipt by post"),
      f.receipt ? [ui.field("Street and number", ui.input(c, "street", f, "street")), ui.field("Town", ui.input(c, "town", f,
        "town"))] : null,
      ui.check(c, "anonymous", f, "anonymous", "Do not show my name"),
      h("div.row", { style: "margin: 12px 0 0" }, ui.button("check", "Continue", () => {
        c.keep(() => (c.v.note = error()));
        if (c.v.note) c.set(); else c.go("check");
      }, "primary")));
    const change = (g) => h("div.row", { style: "margin: 6px 0 0; flex-wrap: nowrap" }, ui.input(c, "new-amount", c.v, "sum"),
      ui.button("save", "Save", () => c.set(() => { g.amount = Math.max(1, Math.round(Number(c.v.sum)) || g.amount); c.v.changing = null;
        }), "primary"));
    const stop = (g) => ui.dialog("Stop this gift?", h("p", `${purpose(g.purpose)}, ${c.money(g.amount)} ${rhythm(g)}`),
      h("div.row", { style: "margin: 0" }, ui.button("confirm", "Stop it", () => {
        c.keep(() => { c.s.gifts = c.s.gifts.filter((x) => x !== g); c.s.stopped += 1; });
        ui.close();
      }, "danger"), ui.button("cancel", "Keep giving", () => ui.close())));
    const own = h("div.panel", {}, h("h2", "Your gifts"), c.s.gifts.map((g) => h("div",
      { style: "padding: 8px 0; border-bottom: 1px solid var(--line)" },
      h("div.bar", { style: "margin: 0" }, h("b", purpose(g.purpose)), h("b", { k: `sum:${g.id}` }, c.money(g.amount))), h("small",
        rhythm(g)),
      g.often === "monthly" ? h("div.row", { style: "margin: 4px 0 0" },
        ui.button(`change:${g.id}`, "Change amount", () => c.set(() => { c.v.changing = g.id; c.v.sum = String(g.amount); })),
        ui.button(`stop:${g.id}`, "Stop", () => stop(g), "quiet")) : null,
      c.v.changing === g.id ? change(g) : null)));
    return h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 360px" }, form, own);
  },
});
