// Posts, more of them on request: like, follow, hide, report.
Site.module("feed", {
  view(c) {
    const { posts, reasons } = c.content, PAGE = 5;
    c.v.count ??= PAGE;
    c.v.show ??= "all";
    const flip = (key, id) => c.set(() => (c.s[key] = c.s[key].includes(id) ? c.s[key].filter((x) => x !== id) : [...c.s[key], id]));
    const report = (p) => {
      const again = () => ui.dialog("Report this post", h("p.muted", `${p.author}: ${p.text}`),
        h("div.stack", {}, reasons.map((r) => h("label.check", { k: `reason:${r}` }, h("input", { type: "radio", name: "reason",
          checked: c.v.reason === r, onchange: () => { c.v.reason = r; again(); } }), h("span", r)))),
        h("div.row", { style: "margin: 14px 0 0" }, h("button.primary", { k: "send", type: "button", disabled: !c.v.reason, onclick: () => {
          c.keep(() => (c.s.reports.push({ post: p.id, reason: c.v.reason })));
          ui.close();
          ui.toast("Thank you, we will look at it");
        } }, "Send report"), ui.button("cancel", "Cancel", () => ui.close())));
      c.v.reason = null;
      c.v.more = null;
      again();
    };
    const follow = (who) => ui.button(`follow:${who}`, c.s.following.includes(who) ? "Following ✓" : "Follow", () => flip("following", who),
      c.s.following.includes(who) ? "primary" : "");
    const options = (p) => h("div.select", { style: "min-width: 0" },
      ui.button(`more:${p.id}`, "⋯", () => c.set(() => (c.v.more = c.v.more === p.id ? null : p.id)), "quiet"),
      c.v.more === p.id ? h("div.options", { style: "left: auto; min-width: 180px" },
        h("button.option", { k: `hide:${p.id}`, type: "button", onclick: () => { c.v.more = null; flip("hidden", p.id); } },
          "Hide this post"),
        h("button.option", { k: `report:${p.id}`, type: "button", onclick: () => report(p) }, "Report…")) : null);
    const post = (p) => {
      const liked = c.s.liked.includes(p.id);
      return h("article.panel", { style: "position: relative" }, h("div.row", {}, ui.drawing("person", p.hue, "small"),
        h("div.grow", {}, h("b", p.author), h("br"), h("small", p.day)), options(p)),
      h("p", p.text), h("div.row", { style: "margin: 0" },
        ui.button(`like:${p.id}`, liked ? "♥ Liked" : "♡ Like", () => flip("liked", p.id), liked ? "primary" : ""),
        h("small", { k: `likes:${p.id}` }, `${p.likes + liked} likes`),
        c.s.reports.some((r) => r.post === p.id) ? h("span.tag", "Reported") : null));
    };
    const pass = (p) => (c.v.show === "hidden" ? c.s.hidden.includes(p.id) : !c.s.hidden.includes(p.id) &&
      (c.v.show === "all" || c.s.following.includes(p.author)));
    const all = posts.filter(pass), shown = all.slice(0, c.v.count);
    const gone = (p) => h("div", {}, h("div.grow", {}, h("b", p.author), h("br"), h("small", p.text)),
      ui.button(`unhide:${p.id}`, "Show again", () => flip("hidden", p.id)));
    const tabs = [["all", "All posts"], ["following", "Following"], ["hidden", `Hidden (${c.s.hidden.length})`]];
    const authors = [...new Set(posts.map((p) => p.author))].sort();
    return [ui.tabs(c, "show", c.v.show, tabs, (v) => c.set(() => { c.v.show = v; c.v.count = PAGE; })),
      h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 290px" },
        h("div.stack", {}, c.v.show === "hidden" ? (all.length ? h("div.list", {}, all.map(gone)) : ui.note("You have hidden nothing."))
          : [shown.length ? shown.map(post) : ui.note("Follow somebody to see posts here."),
            c.v.count < all.length ? ui.button("load", `Load more (${all.length - c.v.count} left)`,
              () => c.set(() => (c.v.count += PAGE))) : h("p.muted", { style: "text-align: center" }, "That was all.")]),
        h("div.panel", {}, h("h3", "People"), authors.map((who) => h("div.bar", { style: "margin-bottom: 8px; flex-wrap: nowrap" },
          h("span", who), follow(who))))),
    ];
  },
});
