// Reviews of things: read, filter, write, edit one's own, say what helped, report.
Site.module("reviews", {
  view(c) {
    const item = (id) => c.content.items.find((i) => i.id === id);
    const of = (id) => c.s.reviews.filter((r) => r.item === id);
    const mean = (id) => (of(id).length ? of(id).reduce((s, r) => s + r.stars, 0) / of(id).length : 0);
    const close = () => c.set(() => (c.v.reporting = c.v.deleting = null));
    const here = item(c.path[0]);
    if (!here)
      return h("div.grid", {}, c.content.items.map((i) => h("article.card", {}, ui.picture(i.hue), h("h3", i.name), h("p", i.kind),
        h("div", {}, ui.stars(mean(i.id)), h("small", ` · ${of(i.id).length} reviews`)),
        ui.button(`open:${i.id}`, "Read reviews", () => c.go(i.id)))));
    const mine = of(here.id).find((r) => r.author === "You");
    const d = c.v.draft && c.v.draft.item === here.id ? c.v.draft : null;
    const begin = (r) => c.set(() => { c.v.draft = { item: here.id, stars: r ? r.stars : 0, title: r ? r.title : "",
      text: r ? r.text : "" }; });
    const send = () => c.set(() => {
      c.v.error = !d.stars ? "Choose how many stars." : !d.title.trim() ? "Give it a title." : null;
      if (c.v.error) return;
      const own = { stars: d.stars, title: d.title.trim(), text: d.text.trim() };
      if (mine) Object.assign(mine, own);
      else c.s.reviews.push({ id: "r" + c.s.made++, item: here.id, author: "You", helpful: 0, voted: false, reported: null, ...own });
      c.v.draft = null;
    });
    const form = () => h("div.panel", { style: "margin-bottom: 16px" }, h("h3", mine ? "Edit your review" : "Write a review"),
      h("div.row", {}, [1, 2, 3, 4, 5].map((n) => h("button", { k: `star:${n}`, title: `${n} of 5`,
        style: "font-size: 1.3em; padding: 2px 10px", onclick: () => c.set(() => (d.stars = n)) }, n <= d.stars ? "★" : "☆")),
      h("span.muted", d.stars ? `${d.stars} of 5` : "How many stars?")),
      ui.field("Title", ui.input(c, "title", d, "title")), ui.field("What should others know?", ui.area(c, "text", d, "text", { rows: 3 })),
      h("div.row", {}, ui.button("send", mine ? "Save changes" : "Publish", send, "primary"),
        ui.button("discard", "Cancel", () => c.set(() => (c.v.draft = null))), c.v.error ? ui.note(c.v.error, "error") : null));
    const only = c.v.only || "all";
    const shown = of(here.id).filter((r) => only === "all" || r.stars === Number(only))
      .sort((a, b) => (c.v.order === "stars" ? b.stars - a.stars : c.v.order === "helpful" ? b.helpful - a.helpful : 0));
    const vote = (r) => c.set(() => { r.voted = !r.voted; r.helpful += r.voted ? 1 : -1; });
    const card = (r) => h("article.panel", {}, h("div.bar", { style: "margin-bottom: 4px" },
      h("span", {}, ui.stars(r.stars), " ", h("b", r.title)), h("span.muted", r.author === "You" ? "by you" : `by ${r.author}`)),
    h("p", r.text), h("div.row", { style: "margin: 0" }, h("small.grow", `${r.helpful} found this helpful`),
      r.author === "You"
        ? [ui.button(`edit:${r.id}`, "Edit", () => begin(r)), ui.button(`delete:${r.id}`, "Delete",
          () => c.set(() => (c.v.deleting = r.id)))]
        : [ui.button(`helpful:${r.id}`, r.voted ? "✓ Helpful" : "Helpful", () => vote(r)),
          r.reported ? h("span.tag", "Reported") : ui.button(`report:${r.id}`, "Report", () => c.set(() => {
            c.v.reporting = r.id; c.v.reason = null; }), "quiet")]));
    const veil = (title, ...children) => h("div.veil", {}, h("div.dialog", { role: "dialog" }, h("h2", title), ...children));
    const target = c.s.reviews.find((r) => r.id === (c.v.reporting || c.v.deleting));
    return [
      h("div.bar", {}, ui.button("back", "‹ All " + c.content.many, () => c.go()),
        mine || d ? null : ui.button("write", "Write a review", () => begin(null), "primary")),
      h("div.row", {}, ui.picture(here.hue, "small"), h("h2", { style: "margin: 0" }, here.name), ui.stars(mean(here.id)),
        h("span.muted", `${of(here.id).length} reviews`)),
      d ? form() : null,
      h("div.row", {}, ui.select(c, "only", only, [["all", "All ratings"], ...[5, 4, 3, 2, 1].map((n) => [String(n), `${n} stars`])],
        (v) => (c.v.only = v)), ui.select(c, "order", c.v.order || "first", [["first", "In order of time"], ["stars", "Most stars first"],
        ["helpful", "Most helpful first"]], (v) => (c.v.order = v)), h("span.muted", { k: "shown" }, `${shown.length} shown`)),
      h("div.stack", {}, shown.length ? shown.map(card) : ui.note("No review with this rating.")),
      c.v.reporting && target ? veil("Report this review", h("p", `“${target.title}” by ${target.author}`),
        c.content.reasons.map((x) => ui.radio(c, "reason", c.v, "reason", x, x)), h("div.row", { style: "margin-top: 12px" },
          h("button.primary", { k: "send-report", disabled: !c.v.reason, onclick: () => { target.reported = c.v.reason; close(); } },
            "Send report"),
          ui.button("close", "Cancel", close))) : null,
      c.v.deleting && target ? veil("Delete your review?", h("p", "This cannot be undone."), h("div.row", {},
        ui.button("sure", "Delete", () => { c.s.reviews = c.s.reviews.filter((r) => r !== target); close(); }, "danger"),
        ui.button("close", "Keep it", close))) : null,
    ];
  },
});
