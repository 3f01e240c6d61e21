// A discussion in threads: answer, write, edit, delete, vote; sort and fold up.
Site.module("comments", {
  view(c) {
    c.v.sort ??= "oldest";
    c.v.folded ??= { ...c.content.folded };
    c.v.text ??= "";
    const { ME, headline, lead } = c.content;
    const all = c.s.comments, score = (x) => x.votes + c.s.voted.includes(x.id);
    const below = (id) => all.filter((x) => x.parent === id);
    const size = (id) => below(id).reduce((n, x) => n + 1 + size(x.id), 0);
    const ways = { oldest: () => 0, newest: (a, b) => all.indexOf(b) - all.indexOf(a), best: (a, b) => score(b) - score(a) };
    const add = (parent, text) => {
      if (text.trim()) c.s.comments.push({ id: `n${c.s.next++}`, parent, author: ME, text: text.trim(), votes: 0 });
    };
    const write = (x, mode) => c.set(() => (c.v.writing = { id: x.id, mode, text: mode === "edit" ? x.text : "" }));
    const send = (x) => c.set(() => {
      const w = c.v.writing;
      if (w.mode === "reply") { add(x.id, w.text); c.v.folded[x.id] = false; } else if (w.text.trim()) x.text = w.text.trim();
      c.v.writing = null;
    });
    const remove = (x) => ui.dialog("Delete this comment?", h("p", x.text), h("div.row", { style: "margin: 0" },
      ui.button("confirm", "Delete", () => { c.keep(() => (c.s.comments = c.s.comments.filter((y) => y !== x))); ui.close(); }, "danger"),
      ui.button("cancel", "Keep it", () => ui.close())));
    const vote = (x) => c.set(() => (c.s.voted = c.s.voted.includes(x.id) ? c.s.voted.filter((id) => id !== x.id) : [...c.s.voted, x.id]));
    const tools = (x) => h("div.row", { style: "margin: 4px 0 0; gap: 4px" },
      ui.button(`vote:${x.id}`, `▲ ${score(x)}`, () => vote(x), c.s.voted.includes(x.id) ? "primary" : ""),
      ui.button(`reply:${x.id}`, "Reply", () => write(x, "reply"), "quiet"),
      x.author === ME ? [ui.button(`edit:${x.id}`, "Edit", () => write(x, "edit"), "quiet"),
        below(x.id).length ? null : ui.button(`delete:${x.id}`, "Delete", () => remove(x), "quiet")] : null,
      below(x.id).length ? ui.button(`fold:${x.id}`, c.v.folded[x.id] ? `Show ${size(x.id)} replies` : "Hide replies",
        () => c.set(() => (c.v.folded[x.id] = !c.v.folded[x.id])), "quiet") : null);
    const one = (x) => {
      const w = c.v.writing && c.v.writing.id === x.id ? c.v.writing : null;
      return h("div", { style: "border-left: 3px solid var(--line); padding: 4px 0 4px 14px; margin: 8px 0" },
        h("div", {}, h("b", { k: `author:${x.id}` }, x.author), x.author === ME ? h("span.tag", { style: "margin-left: 8px" },
          "You") : null),
        w && w.mode === "edit" ? null : h("p", { style: "margin: 2px 0" }, x.text),
        w ? h("div", { style: "max-width: 560px" }, ui.area(c, "writing", w, "text", { rows: 2 }), h("div.row",
          { style: "margin: 6px 0 0" },
          ui.button("send", w.mode === "reply" ? "Send reply" : "Save", () => send(x), "primary"),
          ui.button("drop", "Cancel", () => c.set(() => (c.v.writing = null))))) : tools(x),
        c.v.folded[x.id] ? null : [...below(x.id)].sort(ways[c.v.sort]).map(one));
    };
    return [
      h("div.panel", {}, h("h2", headline), h("p", lead)),
      h("div.bar", { style: "margin-top: 16px" }, h("h3", { style: "margin: 0" }, `${all.length} comments`),
        ui.select(c, "sort", c.v.sort, [["oldest", "Oldest first"], ["newest", "Newest first"], ["best", "Most votes first"]],
          (v) => (c.v.sort = v))),
      [...below(null)].sort(ways[c.v.sort]).map(one),
      h("div.panel", { style: "margin-top: 16px; max-width: 640px" }, h("h3", "Write a comment"), ui.area(c, "text", c.v, "text",
        { rows: 3 }),
        h("div.row", { style: "margin: 8px 0 0" }, ui.button("post", "Post comment", () => c.set(() => { add(null, c.v.text);
          c.v.text = ""; }),
          "primary"))),
    ];
  },
});
