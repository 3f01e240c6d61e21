// Up to three things side by side; one of them is chosen.
Site.module("compare", {
  badge: (c) => c.s.chosen.length,
  view(c) {
    const item = (id) => c.content.items.find((i) => i.id === id);
    const flip = (id) => c.set(() => {
      if (c.s.chosen.includes(id)) c.s.chosen = c.s.chosen.filter((x) => x !== id);
      else if (c.s.chosen.length >= 3) ui.toast("Three at most: take one out first");
      else c.s.chosen.push(id);
    });
    const empty = () => c.set(() => (c.s.chosen = []));
    const picks = c.s.chosen.map(item);
    if (c.path[0] === "table") {
      const lines = [
        ["price", "Price", (i) => c.money(i.price)], ["rating", "Rating", (i) => ui.stars(i.rating)],
        ["kind", "Category", (i) => i.kind], ["place", "Location", (i) => i.place],
        ["days", "Ready in", (i) => `${i.days} days`], ["months", "Guarantee", (i) => `${i.months} months`],
        ["people", "Chosen by", (i) => `${i.people} people`],
      ].filter(([key]) => !c.v.different || new Set(picks.map((i) => i[key])).size > 1);
      return [
        h("div.bar", {}, ui.button("back", "‹ All " + c.content.many, () => c.go()), h("div.row", { style: "margin: 0" },
          ui.check(c, "different", c.v, "different", "Only what differs"), ui.button("empty", "Clear comparison", empty))),
        picks.length ? ui.table(["", ...picks.map((i) => h("div", {}, ui.picture(i.hue), h("b", { style: "color: var(--ink)" },
          i.name)))], [
          ...lines.map(([key, label, show]) => [h("span.muted", label), ...picks.map((i) => h("span", { k: `${key}:${i.id}` }, show(i)))]),
          ["", ...picks.map((i) => h("div.row", { style: "margin: 0" },
            ui.button(`decide:${i.id}`, c.s.decision === i.id ? "✓ Chosen" : "Choose this", () => c.set(() => (c.s.decision = i.id)),
              "primary"),
            ui.button(`out:${i.id}`, "Take out", () => flip(i.id), "quiet")))],
        ]) : ui.note("Nothing to compare. Tick up to three in the list."),
        c.s.decision ? ui.note(`You chose ${item(c.s.decision).name}.`) : null,
      ];
    }
    return [
      h("div.bar.panel", {}, h("div.row", { style: "margin: 0" }, h("b", `Compare (${picks.length} of 3)`), picks.map((i) =>
        ui.button(`tray:${i.id}`, i.name + "  ×", () => flip(i.id)))),
      h("div.row", { style: "margin: 0" }, ui.button("empty", "Clear", empty, "quiet"),
        ui.button("compare", "Compare now", () => c.go("table"), "primary"))),
      h("div.grid", {}, c.content.items.map((i) => h("article.card", {}, ui.picture(i.hue), h("h3", i.name), h("p", i.kind),
        h("p.price", c.money(i.price)), h("label.check", { k: `tick:${i.id}` }, h("input", { type: "checkbox",
          checked: c.s.chosen.includes(i.id), onchange: () => flip(i.id) }), h("span", "Compare"))))),
    ];
  },
});
