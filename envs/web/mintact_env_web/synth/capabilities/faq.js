// Questions under tabs, each opening to its answer: found helpful or not, saved, asked anew.
Site.module("faq", {
  view(c) {
    const { tabs, questions, reasons } = c.content;
    c.v.tab ??= tabs[0].id;
    c.v.open ??= {};
    c.v.ask ??= { tab: null, text: "", email: "" };
    const flip = (list, id) => (list.includes(id) ? list.filter((x) => x !== id) : [...list, id]);
    const vote = (id, value) => c.set(() => {
      if (c.s.votes[id] === value) delete c.s.votes[id];
      else c.s.votes[id] = value;
      delete c.s.reasons[id];
      c.v.reason = null;
    });
    const why = (q) => c.s.reasons[q.id] ? h("p.muted", {}, "Your reason: ", c.s.reasons[q.id])
      : h("div.row", {}, ui.select(c, `why:${q.id}`, c.v.reason, reasons, (v) => (c.v.reason = v), "What is missing?"),
        ui.button(`tell:${q.id}`, "Send", () => c.v.reason && c.set(() => { c.s.reasons[q.id] = c.v.reason; c.v.reason = null; })));
    const body = (q) => h("div", { style: "display: block; padding: 4px 20px 14px" }, h("p", { k: `a:${q.id}` }, q.answer),
      h("div.row", { style: "margin: 0" }, h("small", "Was this helpful?"),
        ui.button(`yes:${q.id}`, "Yes", () => vote(q.id, "yes"), c.s.votes[q.id] === "yes" ? "primary" : ""),
        ui.button(`no:${q.id}`, "No", () => vote(q.id, "no"), c.s.votes[q.id] === "no" ? "primary" : ""),
        h("small.grow", `${q.liked} of ${q.asked} people found it helpful.`),
        ui.button(`save:${q.id}`, c.s.saved.includes(q.id) ? "Saved ✓" : "Save", () => c.set(() => (c.s.saved = flip(c.s.saved, q.id))))),
      c.s.votes[q.id] === "no" ? h("div", { style: "margin-top: 10px" }, why(q)) : null);
    const listed = (shown) => shown.length ? h("div.list", {}, shown.map((q) => [
      h("button" + (c.v.open[q.id] ? ".here" : ""), { k: `q:${q.id}`, type: "button",
        onclick: () => c.set(() => (c.v.open[q.id] = !c.v.open[q.id])) },
        h("span.grow.strong", q.text), h("span.muted", c.v.open[q.id] ? "−" : "+")),
      c.v.open[q.id] ? body(q) : null])) : ui.note("No questions here.");
    const send = () => {
      const a = c.v.ask;
      if (!a.tab || !a.text.trim() || !a.email.includes("@"))
        return c.set(() => (c.v.error = "Please choose a topic, write your question and give your e-mail."));
      c.s.asked.push({ tab: a.tab, text: a.text.trim(), email: a.email.trim() });
      c.v.ask = null;
      c.v.error = null;
      c.set();
      ui.toast("Your question was sent");
    };
    const ask = h("div.panel", {}, h("h3", "Ask a question"), c.v.error ? ui.note(c.v.error, "error") : null,
      ui.field("Topic", ui.select(c, "topic", c.v.ask.tab, tabs.map((t) => [t.id, t.name]), (v) => (c.v.ask.tab = v))),
      ui.field("Your question", ui.area(c, "question", c.v.ask, "text", { rows: 3 })),
      ui.field("E-mail for the answer", ui.input(c, "email", c.v.ask, "email")), ui.button("ask", "Send question", send, "primary"),
      c.s.asked.length ? h("p.muted", { style: "margin: 14px 0 4px" }, `You asked (${c.s.asked.length})`) : null,
      c.s.asked.map((a) => h("p", {}, h("small", a.text))));
    const pairs = [...tabs.map((t) => [t.id, t.name]), ["saved", `Saved (${c.s.saved.length})`]];
    return h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 300px" },
      h("div", {}, ui.tabs(c, "tab", c.v.tab, pairs, (v) => c.set(() => (c.v.tab = v))),
        listed(questions.filter((q) => (c.v.tab === "saved" ? c.s.saved.includes(q.id) : q.tab === c.v.tab)))), ask);
  },
});
