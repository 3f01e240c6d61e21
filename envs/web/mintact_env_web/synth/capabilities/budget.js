// Amounts that must add up to a total: sliders and fields, limits, parts of one's own.
Site.module("budget", {
  view(c) {
    const fresh = () => structuredClone({ total: c.s.total, parts: c.s.parts });
    const d = (c.v.draft ??= fresh()), step = c.content.step;
    const sum = () => d.parts.reduce((n, p) => n + p.amount, 0), left = () => d.total - sum();
    const number = (text) => Math.max(0, Math.round(Number(text)) || 0);
    const set = (p, value) => c.set(() => (p.amount = Math.max(0, value)));
    const slider = (p) => h("input", { type: "range", k: `slide:${p.id}`, min: 0, max: d.total, step,
      style: "width: 190px; padding: 0; accent-color: var(--accent)",
      value: String(p.amount), onchange: (e) => set(p, Number(e.target.value)) });
    const balance = () => left() === 0 ? "Everything is given out." : left() > 0 ? `${c.money(left())} still to give out`
      : `${c.money(-left())} too much`;
    // while one types only the balance follows, so that caret and buttons stay where they are
    const typed = (bag, key) => (e) => {
      c.keep(() => (bag[key] = key === "limit" && !e.target.value.trim() ? null : number(e.target.value)));
      document.querySelector("[data-k=left]").textContent = balance();
    };
    const field = (bag, key, k) => h("input", { k, value: bag[key] === null ? "" : String(bag[key]), autocomplete: "off",
      style: "width: 100px", placeholder: key === "limit" ? "none" : "0", oninput: typed(bag, key) });
    const over = (p) => p.limit !== null && p.amount > p.limit;
    const rows = d.parts.map((p) => [h("b", p.name), slider(p),
      h("span.stepper", {}, ui.button(`less:${p.id}`, "−", () => set(p, p.amount - step)), field(p, "amount", `amount:${p.id}`),
        ui.button(`more:${p.id}`, "+", () => set(p, p.amount + step))),
      field(p, "limit", `limit:${p.id}`), over(p) ? h("span.tag", { k: `over:${p.id}`, style: "color: #e5484d" }, "Over limit") : "",
      ui.button(`drop:${p.id}`, "Remove", () => c.set(() => (d.parts = d.parts.filter((x) => x !== p))), "quiet")]);
    const add = () => {
      const name = (c.v.name ?? "").trim();
      if (name) c.set(() => { d.parts.push({ id: `n${d.parts.length}`, name, amount: 0, limit: null }); c.v.name = ""; });
    };
    const even = () => c.set(() => d.parts.forEach((p, i) => (p.amount = Math.floor(d.total / d.parts.length)
      + (i < d.total % d.parts.length ? 1 : 0))));
    const save = () => {
      if (left()) return c.set(() => (c.v.error = true));
      c.set(() => { Object.assign(c.s, structuredClone(d)); c.v.draft = null; c.v.error = false; });
      ui.toast("Budget saved");
    };
    return [
      h("div.bar", {}, h("div.row", { style: "margin: 0" }, h("b", "Total"), field(d, "total", "total"),
        h("span.tag", { k: "left" }, balance())),
      h("div.row", { style: "margin: 0" }, ui.button("even", "Split evenly", even),
        ui.button("undo", "Undo", () => c.set(() => { c.v.draft = null; c.v.error = false; })), ui.button("save", "Save budget", save,
          "primary"))),
      c.v.error && left() ? ui.note("The parts must add up to the total before you can save.", "error") : null,
      ui.table(["Part", "", "Amount", "Limit", "", ""], rows),
      h("div.row", {}, ui.input(c, "name", c.v, "name", { placeholder: "Name of a new part", style: "max-width: 240px" }),
        ui.button("add", "Add part", add)),
      h("div", { style: "display: flex; height: 22px; border-radius: 6px; overflow: hidden; margin-top: 8px; background: var(--line)" },
        d.parts.map((p, i) => h("span", { title: p.name,
          style: `width: ${(100 * p.amount) / Math.max(d.total, sum(), 1)}%; background: hsl(${
          (c.content.hue + 47 * i) % 360} 45% 55%)` }))),
    ];
  },
});
