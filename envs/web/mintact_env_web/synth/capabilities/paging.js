// A long list in pages, with numbered links, a page size, and hearts.
Site.module("paging", {
  badge: (c) => c.s.hearts.length,
  view(c) {
    const size = c.v.size || 6, all = c.content.items, pages = Math.ceil(all.length / size);
    const page = Math.min(Number(c.path[0]) || 1, pages);
    const shown = all.slice((page - 1) * size, page * size);
    const to = (n) => { c.go(n); scrollTo(0, 0); };
    const heart = (id) => c.set(() => {
      c.s.hearts = c.s.hearts.includes(id) ? c.s.hearts.filter((x) => x !== id) : [...c.s.hearts, id];
    });
    return [
      h("div.bar", {}, h("span", `Results ${(page - 1) * size + 1}–${Math.min(page * size, all.length)} of ${all.length}`),
        h("div.row", { style: "margin: 0" }, h("span.muted", "Per page"),
          [6, 12].map((n) => h("button" + (n === size ? ".primary" : ""), { k: `size:${n}`,
            onclick: () => { c.v.size = n; c.set(); to(1); } }, String(n))))),
      h("div.list", {}, shown.map((i) => h("div", {}, ui.picture(i.hue, "small"),
        h("div.grow", {}, h("b", { k: `name:${i.id}` }, i.name), h("br"), h("small", `${i.kind} · ${i.place} · ${i.blurb}`)),
        ui.stars(i.rating), h("b", { k: `price:${i.id}`, style: "width: 70px; text-align: right" }, c.money(i.price)),
        h("button", { k: `heart:${i.id}`, onclick: () => heart(i.id) }, c.s.hearts.includes(i.id) ? "♥ Favourite" : "♡ Favourite")))),
      h("div.pager", {},
        h("button", { k: "page:previous", disabled: page <= 1, onclick: () => to(page - 1) }, "‹ Previous"),
        Array.from({ length: pages }, (_, n) => h("button" + (n + 1 === page ? ".primary" : ""),
          { k: `page:${n + 1}`, onclick: () => to(n + 1) }, String(n + 1))),
        h("button", { k: "page:next", disabled: page >= pages, onclick: () => to(page + 1) }, "Next ›")),
    ];
  },
});
