// A table one sorts by its heads or by two drop-downs, and whose rows one can pin to the top.
Site.module("sorting", {
  view(c) {
    const { first, then, pinned } = c.s;
    const names = { name: "Name", kind: "Category", price: "Price", rating: "Rating", added: "Added" };
    const orders = c.content.orders;
    const compare = (order) => (a, b) => {
      const [key, way] = order.split("-");
      const x = a[key], y = b[key];
      return (x < y ? -1 : x > y ? 1 : 0) * (way === "up" ? 1 : -1);
    };
    const rows = [...c.content.items].sort((a, b) =>
      pinned.includes(b.id) - pinned.includes(a.id) || (first ? compare(first)(a, b) : 0) || (then ? compare(then)(a, b) : 0));
    const head = (key) => {
      const on = first && first.split("-")[0] === key, up = on && first.endsWith("up");
      return h("button.quiet", { k: `head:${key}`, style: "padding: 0; font-weight: 700",
        onclick: () => c.set(() => { c.s.first = `${key}-${up ? "down" : "up"}`; c.s.then = null; }) },
      names[key] + (on ? (up ? " ▲" : " ▼") : ""));
    };
    const pin = (id) => c.set(() => (c.s.pinned = pinned.includes(id) ? pinned.filter((x) => x !== id) : [...pinned, id]));
    return [
      h("div.bar", {}, h("div.row", { style: "margin: 0" },
        h("span.muted", "Sort by"), ui.select(c, "first", first, [[null, "Our choice"], ...orders], (v) => (c.s.first = v), "Our choice"),
        h("span.muted", "then by"), ui.select(c, "then", then, [[null, "Nothing else"], ...orders], (v) => (c.s.then = v), "Nothing else")),
      h("span.muted", `${pinned.length} pinned`)),
      ui.table([head("name"), head("kind"), head("price"), head("rating"), head("added"), ""], rows.map((i) => [
        h("span.row", { style: "margin: 0; flex-wrap: nowrap" }, ui.picture(i.hue, "small"), h("b", { k: `name:${i.id}` }, i.name)),
        i.kind, h("span", { k: `price:${i.id}` }, c.money(i.price)), ui.stars(i.rating), i.added,
        ui.button(`pin:${i.id}`, pinned.includes(i.id) ? "★ Pinned" : "☆ Pin", () => pin(i.id))])),
      pinned.length ? ui.button("unpin", "Unpin everything", () => c.set(() => (c.s.pinned = [])), "quiet") : null,
    ];
  },
});
