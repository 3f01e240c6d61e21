// A list narrowed by facets at its side: boxes, a highest price, a lowest rating; chips above it.
Site.module("facets", {
  view(c) {
    const f = c.s.filters;
    const fits = (i, skip) =>
      (skip === "kinds" || !f.kinds.length || f.kinds.includes(i.kind)) &&
      (skip === "places" || !f.places.length || f.places.includes(i.place)) &&
      (skip === "price" || f.price === null || i.price <= f.price) &&
      (skip === "rating" || f.rating === null || i.rating >= f.rating) && (!f.free || i.free);
    const found = c.content.items.filter((i) => fits(i));
    const flip = (key, value) => c.set(() => {
      f[key] = f[key].includes(value) ? f[key].filter((x) => x !== value) : [...f[key], value].sort();
    });
    const clear = () => c.set(() => Object.assign(f, { kinds: [], places: [], price: null, rating: null, free: false }));
    const chips = [
      ...f.kinds.map((v) => [`kind-${v}`, v, () => flip("kinds", v)]),
      ...f.places.map((v) => [`place-${v}`, v, () => flip("places", v)]),
      ...(f.price === null ? [] : [["price", "up to " + c.money(f.price), () => c.set(() => (f.price = null))]]),
      ...(f.rating === null ? [] : [["rating", `${f.rating}+ stars`, () => c.set(() => (f.rating = null))]]),
      ...(f.free ? [["free", "Available now", () => c.set(() => (f.free = false))]] : []),
    ];
    const boxes = (title, key, short, values) => h("div", {}, h("h3", title), values.map((v) => {
      const count = c.content.items.filter((i) => fits(i, key) && i[short] === v).length;
      return h("label.check", { k: `${short}:${v}` }, h("input", { type: "checkbox", checked: f[key].includes(v),
        onchange: () => flip(key, v) }), h("span", v), h("small", `(${count})`));
    }));
    const aside = h("aside.panel.stack", {},
      boxes("Category", "kinds", "kind", c.content.kinds), boxes("Location", "places", "place", c.content.places),
      h("div", {}, h("h3", "Price"), ui.select(c, "price", f.price,
        [[null, "Any price"], ...c.content.steps.map((p) => [p, "up to " + c.money(p)])], (v) => (f.price = v), "Any price")),
      h("div", {}, h("h3", "Rating"), [[null, "Any"], [3, "3 stars and more"], [4, "4 stars and more"]].map(([v, text]) =>
        ui.radio(c, "rating", f, "rating", v, text))),
      ui.check(c, "free", f, "free", "Available now"));
    return h("div.split", {}, aside, h("div", {},
      h("div.bar", {}, h("span", {}, h("b", { k: "count" }, String(found.length)), ` of ${c.content.items.length} ${c.content.many}`),
        h("span.muted", `Shortlist: ${c.s.picked.length}`)),
      chips.length ? h("div.row", {}, chips.map(([k, text, drop]) => ui.button(`chip:${k}`, text + "  ×", drop)),
        ui.button("clear", "Clear all", clear, "quiet")) : null,
      found.length ? h("div.list", {}, found.map((i) => h("div", {},
        ui.picture(i.hue, "small"), h("div.grow", {}, h("b", i.name), h("br"),
          h("small", `${i.kind} · ${i.place}`, i.free ? " · available now" : "")),
        ui.stars(i.rating), h("b", { style: "width: 70px; text-align: right" }, c.money(i.price)),
        ui.button(`pick:${i.id}`, c.s.picked.includes(i.id) ? "✓ Shortlisted" : "Shortlist", () => c.set(() => {
          c.s.picked = c.s.picked.includes(i.id) ? c.s.picked.filter((x) => x !== i.id) : [...c.s.picked, i.id];
        })))))
      : ui.note("Nothing fits all of these filters. Remove one of them.")));
  },
});
