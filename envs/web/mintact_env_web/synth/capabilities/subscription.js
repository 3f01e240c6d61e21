// Subscriptions: another plan, another rhythm, extras, a pause, an end; all after a question.
Site.module("subscription", {
  view(c) {
    const plan = (name) => c.content.plans.find((p) => p.name === name);
    const extra = (name) => c.content.extras.find((e) => e.name === name);
    const here = c.s.subscriptions.find((s) => s.id === c.path[0]);
    const cost = (s) => {
      const month = plan(s.plan).price + s.extras.reduce((sum, e) => sum + extra(e).price, 0);
      return s.cycle === "yearly" ? c.money(month * 10) + " a year" : c.money(month) + " a month";
    };
    const status = (s) => (s.status === "paused" ? `Paused for ${s.months} month${s.months > 1 ? "s" : ""}`
      : s.status === "cancelled" ? "Cancelled" : "Active");
    const close = () => c.set(() => (c.v.ask = null));
    const ask = (what, more = {}) => c.set(() => { c.v.ask = what; Object.assign(c.v, { reason: null, months: 1, comment: "" }, more); });
    const veil = (title, ...children) => h("div.veil", {}, h("div.dialog", { role: "dialog" }, h("h2", title), ...children));
    const buttons = (text, does, kind = "primary", ready = true) => h("div.row", { style: "margin-top: 14px" },
      h("button." + kind, { k: "confirm", disabled: !ready, onclick: () => { does(); close(); } }, text), ui.button("close", "Go back",
        close));
    if (!here)
      return [
        h("h2", "Your subscriptions"),
        h("div.list", {}, c.s.subscriptions.map((s) => h("div", {}, h("div.grow", {}, h("b", s.name), h("br"),
          h("small", `${s.plan} · ${cost(s)} · next payment ${s.next}`)), h("span.tag", status(s)),
        ui.button(`manage:${s.id}`, "Manage", () => c.go(s.id))))),
        h("h2", { style: "margin-top: 26px" }, "Plans and what they cost"),
        ui.table(["Plan", "For a month", "For a year", "What you get"], c.content.plans.map((p) => [h("b", p.name), c.money(p.price),
          h("span", { k: `year:${p.name}` }, c.money(p.price * 10)), p.text])),
      ];
    const dialogs = {
      plan: () => veil(`Change to ${c.v.wanted}?`, h("p", `${here.plan} ends on ${here.next}; then you pay for ${c.v.wanted}.`),
        buttons("Change plan", () => (here.plan = c.v.wanted))),
      pause: () => veil("Pause for how long?", c.content.pauses.map((n) =>
        ui.radio(c, "months", c.v, "months", n, n === 1 ? "1 month" : `${n} months`)),
      h("p.muted", "You pay nothing while it is paused."),
      buttons("Pause", () => { here.status = "paused"; here.months = c.v.months; })),
      cancel: () => veil("Why are you leaving?", c.content.reasons.map((r) => ui.radio(c, "reason", c.v, "reason", r, r)),
        h("p.muted", `You can use it until ${here.next}.`),
        buttons("Cancel subscription", () => { here.status = "cancelled"; here.reason = c.v.reason; }, "danger", !!c.v.reason)),
    };
    const gone = here.status === "cancelled";
    return [
      h("div.bar", {}, ui.button("back", "‹ Your subscriptions", () => c.go()), h("span.tag", { k: "status" }, status(here))),
      h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 330px" }, h("div", {},
        h("h2", here.name), h("p", "You pay ", h("b", { k: "cost" }, cost(here)), `, next on ${here.next}.`),
        h("div.grid", {}, c.content.plans.map((p) => h("article.card", {}, h("h3", p.name), h("p", p.text),
          h("p.price", c.money(p.price), h("small", " a month")), p.name === here.plan ? h("span.tag", "Your plan")
            : h("button.primary", { k: `plan:${p.name}`, disabled: gone, onclick: () => ask("plan", { wanted: p.name }) },
              p.price > plan(here.plan).price ? "Upgrade" : "Downgrade"))))),
      h("aside.stack", {},
        h("div.panel", {}, h("h3", "How often you pay"),
          ui.radio(c, "cycle", here, "cycle", "monthly", "Every month"), ui.radio(c, "cycle", here, "cycle", "yearly",
            "Once a year, two months free")),
        h("div.panel", {}, h("h3", "Extras"), c.content.extras.map((e) => h("label.check", { k: `extra:${e.name}` },
          h("input", { type: "checkbox", checked: here.extras.includes(e.name), onchange: () => c.set(() => {
            here.extras = here.extras.includes(e.name) ? here.extras.filter((x) => x !== e.name) : [...here.extras, e.name].sort(); }) }),
          h("span", e.name), h("small", `+ ${c.money(e.price)}`)))),
        h("div.panel", {}, h("h3", "Pause or leave"), h("div.row", { style: "margin: 0" }, here.status === "active"
          ? ui.button("pause", "Pause…", () => ask("pause"))
          : ui.button("resume", gone ? "Start again" : "Resume",
            () => c.set(() => { here.status = "active"; here.months = 0; here.reason = null; })),
        gone ? null : ui.button("cancel", "Cancel subscription…", () => ask("cancel"), "quiet"))))),
      c.v.ask ? dialogs[c.v.ask]() : null,
    ];
  },
});
