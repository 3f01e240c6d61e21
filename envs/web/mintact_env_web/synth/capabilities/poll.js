// Polls: vote, vote otherwise, see the results, start and close one's own.
Site.module("poll", {
  view(c) {
    c.v.picked ??= {};
    const poll = (id) => c.s.polls.find((p) => p.id === id);
    const counts = (p) => p.votes.map((n, i) => n + p.mine.includes(i));
    const cast = (p) => c.set(() => { p.mine = [...c.v.picked[p.id]].sort(); c.v.picked[p.id] = null; });
    const pick = (p, i) => c.set(() => {
      const now = c.v.picked[p.id] ?? [];
      c.v.picked[p.id] = !p.many ? [i] : now.includes(i) ? now.filter((x) => x !== i) : [...now, i];
    });
    const results = (p) => {
      const all = counts(p), most = Math.max(1, ...all);
      return p.options.map((option, i) => h("div", { style: "margin-bottom: 8px" }, h("div.bar", { style: "margin: 0" },
        h("span", {}, option, p.mine.includes(i) ? h("b", " ✓ your vote") : null), h("b", { k: `count:${p.id}:${i}` }, `${all[i]} votes`)),
      h("div", { style: `height: 9px; border-radius: 4px; width: ${Math.max(1, (100 * all[i]) / most)}%; background: var(--accent)` })));
    };
    const form = (p) => p.options.map((option, i) => h("label.check", { k: `pick:${p.id}:${i}` }, h("input", {
      type: p.many ? "checkbox" : "radio", name: p.id, checked: (c.v.picked[p.id] ?? []).includes(i), onchange: () => pick(p, i) }),
    h("span", option)));
    const one = (p) => {
      const picking = c.v.picked[p.id], showing = c.v.shown === p.id || p.closed || (p.mine.length && !picking);
      return h("div.panel", {}, h("div.bar", { style: "margin-bottom: 6px" }, h("h3", { style: "margin: 0" }, p.question),
        p.closed ? h("span.tag", "Closed") : p.many ? h("span.tag", "Several answers") : null),
      showing ? results(p) : form(p),
      h("div.row", { style: "margin: 10px 0 0" },
        showing || p.closed ? null : h("button.primary", { k: `vote:${p.id}`, type: "button", disabled: !picking || !picking.length,
          onclick: () => cast(p) }, "Vote"),
        !p.mine.length && !p.closed ? ui.button(`results:${p.id}`, c.v.shown === p.id ? "Back to the vote" : "Show results",
          () => c.set(() => (c.v.shown = c.v.shown === p.id ? null : p.id)), "quiet") : null,
        p.mine.length && !p.closed && !picking ? [ui.button(`change:${p.id}`, "Change my vote",
          () => c.set(() => (c.v.picked[p.id] = [...p.mine]))),
          ui.button(`withdraw:${p.id}`, "Withdraw", () => c.set(() => (p.mine = [])), "quiet")] : null,
        p.own && !p.closed ? ui.button(`close:${p.id}`, "Close this poll", () => c.set(() => (p.closed = true)), "quiet") : null));
    };
    if (c.path[0] === "new") {
      const d = (c.v.draft ??= { question: "", options: ["", "", ""], many: false });
      const start = () => {
        const options = d.options.map((o) => o.trim()).filter(Boolean);
        if (!d.question.trim() || options.length < 2) return c.set(() => (c.v.error = "A poll needs a question and two answers."));
        c.s.polls.unshift({ id: `n${c.s.polls.length}`, question: d.question.trim(), options, many: d.many, votes: options.map(() => 0),
          mine: [], own: true, closed: false });
        c.keep(() => { c.v.draft = null; c.v.error = null; });
        c.go();
      };
      return h("div.panel", { style: "max-width: 560px" }, h("h2", "New poll"), c.v.error ? ui.note(c.v.error, "error") : null,
        ui.field("Question", ui.input(c, "question", d, "question")),
        d.options.map((_, i) => ui.field(`Answer ${i + 1}`, ui.input(c, `option:${i}`, d.options, i))),
        d.options.length < 6 ? ui.button("more", "+ Another answer", () => c.set(() => d.options.push("")), "quiet") : null,
        ui.check(c, "many", d, "many", "Several answers may be chosen"),
        h("div.row", { style: "margin: 10px 0 0" }, ui.button("start", "Start poll", start, "primary"), ui.button("cancel", "Cancel",
          () => c.go())));
    }
    return [h("div.bar", {}, h("span.muted", `${c.s.polls.filter((p) => !p.closed).length} open polls`),
      ui.button("new", "New poll", () => c.go("new"), "primary")),
    h("div", { style: "display: grid; grid-template-columns: 1fr 1fr; gap: 16px; align-items: start" }, c.s.polls.map(one))];
  },
});
