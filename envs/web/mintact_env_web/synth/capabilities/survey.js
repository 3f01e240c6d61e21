// A questionnaire on three pages, sent or kept for later; what was answered so far.
Site.module("survey", {
  view(c) {
    const pages = c.content.pages;
    const d = (c.v.draft ??= structuredClone(c.s.kept ?? {}));
    const number = Math.min(pages.length, Math.max(1, +(c.path[1] || 1)));
    const all = pages.flatMap((p) => p.questions);
    const empty = (x) => x === undefined || x === null || x === "" || (Array.isArray(x) && !x.length);
    const tidy = (bag) => Object.fromEntries(all.map((q) => [q.id, typeof bag[q.id] === "string" ? bag[q.id].trim() :
      Array.isArray(bag[q.id]) ? [...bag[q.id]].sort() : bag[q.id]]).filter(([, x]) => !empty(x)));
    const inline = (x) => (Array.isArray(x) ? x.join(", ") : String(x ?? "–"));

    const question = (q) => {
      const set = (x) => c.set(() => (d[q.id] = x));
      const kinds = {
        one: () => h("div", {}, q.options.map((o, i) => h("label.check", { k: `${q.id}:${i}` }, h("input", { type: "radio", name: q.id,
          checked: d[q.id] === o, onchange: () => set(o) }), h("span", o)))),
        many: () => h("div", {}, q.options.map((o, i) => h("label.check", { k: `${q.id}:${i}` }, h("input", { type: "checkbox",
          checked: (d[q.id] || []).includes(o),
          onchange: (e) => set(e.target.checked ? [...(d[q.id] || []), o] : d[q.id].filter((x) => x !== o)) }), h("span", o)))),
        scale: () => h("div.row", {}, h("small", q.low), Array.from({ length: q.most }, (_, i) => i + 1).map((n) =>
          h("button" + (d[q.id] === n ? ".on" : ""), { k: `${q.id}:${n}`, type: "button", style: "padding: 7px 0; width: 2.6em",
            onclick: () => set(n) }, String(n))), h("small", q.high)),
        text: () => ui.area(c, q.id, d, q.id, { rows: 3 }),
      };
      return h("div.panel", { style: "margin-bottom: 12px" }, h("h3", q.text, q.required ? " *" : null), kinds[q.kind](),
        c.v.missing?.includes(q.id) ? ui.note("Please answer this question.", "error") : null);
    };
    const tabs = ui.tabs(c, "part", c.path[0] || "overview", [["overview", "Overview"], ["results", "Results"], ["mine", "My answers"]],
      (v) => c.go(...(v === "overview" ? [] : [v])));

    if (c.path[0] === "page") {
      const here = pages[number - 1];
      const complete = () => {
        c.v.missing = here.questions.filter((q) => q.required && empty(tidy(d)[q.id])).map((q) => q.id);
        return !c.v.missing.length;
      };
      const keep = () => { c.keep(() => (c.s.kept = tidy(d))); c.go(); ui.toast("Kept for later"); };
      const send = () => {
        if (!complete()) return c.set();
        c.keep(() => { c.s.mine.push({ id: `n${c.s.next++}`, day: c.content.today, answers: tidy(d) }); c.s.kept = null; c.v.draft = {}; });
        c.go("thanks");
      };
      const next = () => (complete() ? (c.keep(), c.go("page", number + 1)) : c.set());
      return [h("div.bar", {}, h("h2", here.title), h("span.muted", `Page ${number} of ${pages.length}`)),
        h("div", { style: "height: 6px; background: var(--line); margin-bottom: 14px" },
          h("div", { style: `height: 6px; background: var(--accent); width: ${(100 * number) / pages.length}%` })),
        here.questions.map(question), h("div.bar", {}, ui.button("keep", "Save and continue later", keep),
          h("div.row", { style: "margin: 0" }, number > 1 ? ui.button("back", "‹ Back", () => c.go("page", number - 1)) : null,
            number < pages.length ? ui.button("next", "Next page ›", next, "primary")
              : ui.button("send", "Send answers", send, "primary")))];
    }
    if (c.path[0] === "thanks") return [ui.note("Thank you! Your answers were sent."),
      ui.button("overview", "Back to the overview", () => c.go())];
    if (c.path[0] === "results") return [tabs, all.filter((q) => q.kind !== "text").map((q) => {
      const counts = c.content.results[q.id], most = Math.max(...counts.map(([, n]) => n), 1);
      return h("div.panel", { style: "margin-bottom: 12px" }, h("h3", q.text), counts.map(([o, n], i) =>
        h("div.row", { style: "margin-bottom: 4px" }, h("span", { style: "width: 12em" }, String(o)),
          h("span", { style: `height: 14px; background: var(--accent); width: ${(300 * n) / most}px` }),
          h("small", { k: `count:${q.id}:${i}` }, String(n)))));
    })];
    if (c.path[0] === "mine") return [tabs, c.s.mine.length ? c.s.mine.map((m) => h("div.panel", { style: "margin-bottom: 12px" },
      h("div.bar", {}, h("h3", `Sent on ${Site.dates.said(m.day)}`), h("div.row", { style: "margin: 0" },
        ui.button(`edit:${m.id}`, "Change rating", () => c.set(() => { c.v.edit = m.id; c.v.rating = m.answers.rating; })),
        ui.button(`withdraw:${m.id}`, "Withdraw", () => ui.dialog("Withdraw these answers?", h("p", `Sent on ${Site.dates.said(m.day)}.`),
          h("div.row", {}, ui.button("yes", "Withdraw", () => {
            c.keep(() => (c.s.mine = c.s.mine.filter((x) => x.id !== m.id)));
            ui.close();
          }, "danger"), ui.button("no", "Keep them", () => ui.close())))))),
      c.v.edit !== m.id ? null : h("div.row", {}, [1, 2, 3, 4, 5].map((n) => h("button" + (c.v.rating === n ? ".on" : ""),
        { k: `new:${n}`, type: "button", onclick: () => c.set(() => (c.v.rating = n)) }, String(n))),
      ui.button("save", "Save", () => c.set(() => { m.answers.rating = c.v.rating; c.v.edit = null; }), "primary")),
      ui.table(["Question", "Answer"], all.filter((q) => q.id in m.answers).map((q) => [q.text, inline(m.answers[q.id])]))))
      : ui.note("You have not sent any answers.")];
    return [tabs, h("div.panel", {}, h("h2", c.content.headline), h("p", c.content.intro),
      h("p.muted", `${all.length} questions on ${pages.length} pages; those with * need an answer.`),
      c.s.kept ? ui.note("You have answers that are not sent yet.") : null,
      ui.button("begin", c.s.kept ? "Continue" : "Begin", () => { c.v.missing = []; c.go("page", 1); }, "primary"))];
  },
});
