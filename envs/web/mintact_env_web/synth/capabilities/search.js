// A search box with suggestions, a page of results, saved searches, pages of single things.
Site.module("search", {
  view(c) {
    const items = c.content.items;
    const matches = (text) => items.filter((i) => `${i.name} ${i.kind}`.toLowerCase().includes(text.trim().toLowerCase()));
    const search = (text) => { if (text.trim()) { c.set(() => (c.v.kind = null)); c.go("for", text.trim()); } };
    const suggestions = h("div.list", { style: "display: none; position: absolute; z-index: 4; left: 0; right: 0; top: 100%" });
    const suggest = (text) => {
      const found = text.trim().length > 1 ? matches(text).slice(0, 5) : [];
      suggestions.style.display = found.length ? "block" : "none";
      suggestions.replaceChildren(...found.map((i) => h("button", { k: `suggest:${i.id}`, onclick: () => c.go("one", i.id) },
        h("span.grow", i.name), h("small", i.kind))));
    };
    const box = h("div.row", {}, h("div.grow", { style: "position: relative; max-width: 560px" },
      ui.input(c, "query", c.v, "query", { placeholder: `Search ${c.content.many}`,
        oninput: (e) => { c.keep(() => (c.v.query = e.target.value)); suggest(e.target.value); },
        onkeydown: (e) => { if (e.key === "Enter") search(c.v.query || ""); } }), suggestions),
    ui.button("search", "Search", () => search(c.v.query || ""), "primary"));
    const starred = (id) => c.s.marked.includes(id);
    const star = (id) => c.set(() => (c.s.marked = starred(id) ? c.s.marked.filter((x) => x !== id) : [...c.s.marked, id]));
    if (c.path[0] === "one") {
      const i = items.find((x) => x.id === c.path[1]);
      return [box, h("div.split", { style: "grid-template-columns: 320px 1fr" }, ui.picture(i.hue, "large"), h("div", {},
        h("h2", i.name), h("div.row", {}, h("span.tag", i.kind), ui.stars(i.rating)),
        ui.table(["Details", ""], [["Price", h("b", { k: "price" }, c.money(i.price))], ["Where", h("b", { k: "place" }, i.place)],
          ["Reference number", h("span", { k: "number" }, i.number)], ["Left", String(i.stock)], ["Good to know", i.blurb]]),
        ui.button("star", starred(i.id) ? "★ Bookmarked" : "☆ Bookmark", () => star(i.id), "primary")))];
    }
    if (c.path[0] === "for") {
      const text = c.path[1], all = matches(text), kinds = [...new Set(all.map((i) => i.kind))].sort();
      const found = all.filter((i) => !c.v.kind || i.kind === c.v.kind);
      const same = (s) => s.text.toLowerCase() === text.toLowerCase() && s.kind === (c.v.kind || null);
      return [box,
        h("div.bar", {}, h("span", { k: "count" }, `${found.length} results for “${text}”`),
          c.s.saved.some(same) ? h("span.tag", "Search saved") : ui.button("save", "Save this search", () => c.set(() =>
            c.s.saved.push({ id: "s" + c.s.made++, text, kind: c.v.kind || null, alert: false })))),
        all.length ? ui.tabs(c, "within", c.v.kind || "all", [["all", "All"], ...kinds.map((k) => [k, k])],
          (v) => c.set(() => (c.v.kind = v === "all" ? null : v))) : ui.note("Nothing found. Try fewer letters."),
        h("div.list", {}, found.map((i) => h("button", { k: `open:${i.id}`, onclick: () => c.go("one", i.id) }, ui.picture(i.hue, "small"),
          h("span.grow", {}, h("b", i.name), h("br"), h("small", i.kind)), ui.stars(i.rating), h("b", c.money(i.price)))))];
    }
    return [box,
      h("div.row", {}, h("span.muted", "Often looked for:"), c.content.popular.map((word) =>
        ui.button(`popular:${word}`, word, () => search(word)))),
      h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 320px" }, h("div", {}, h("h2", "Saved searches"),
        c.s.saved.length ? h("div.list", {}, c.s.saved.map((s) => h("div", {}, h("div.grow", {}, h("b", `“${s.text}”`), h("br"),
          h("small", s.kind ? `in ${s.kind}` : "everywhere")), ui.check(c, `alert:${s.id}`, s, "alert", "E-mail me"),
          ui.button(`again:${s.id}`, "Search", () => search(s.text)),
          ui.button(`forget:${s.id}`, "Delete", () => c.set(() => (c.s.saved = c.s.saved.filter((x) => x !== s))), "quiet"))))
          : ui.note("You have saved no search yet.")),
      h("div.panel", {}, h("h3", "Bookmarks"), c.s.marked.length ? h("div.stack", {}, c.s.marked.map((id) =>
        h("a", { k: `mark:${id}`, href: `#/search/one/${id}` }, "★ ", items.find((i) => i.id === id).name))) : h("p.muted", "None yet.")))];
  },
});
