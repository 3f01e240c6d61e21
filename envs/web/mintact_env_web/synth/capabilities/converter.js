// Three calculators: units, money, and what a credit costs; results can be kept.
Site.module("converter", {
  view(c) {
    const { units, rates, home, items } = c.content;
    c.v.tab ??= "units";
    const u = (c.v.units ??= { kind: units[0].name, from: units[0].units[0].name, to: units[0].units[1].name, amount: "1" });
    const m = (c.v.money ??= { from: home, to: rates.find((r) => r.code !== home).code, amount: "100" });
    const l = (c.v.loan ??= { sum: "1000", months: 12, rate: c.content.percents[0], label: "" });
    const number = (text) => { const n = Number(String(text).replace(",", ".")); return text !== "" && n >= 0 ? n : null; };
    const keep = (text) => c.set(() => { c.s.saved.push(text); ui.toast("Result saved"); });
    // results follow what is typed only when asked for, so that the caret stays where it is
    const run = (k, bag, work) => [ui.button(`go:${k}`, "Calculate", () => c.set(() => (bag.result = work())), "primary")];
    const result = (k, bag) => (bag.result === undefined ? null : bag.result === null ? ui.note("Please enter a number.", "error")
      : h("div.panel", { style: "margin-top: 14px; background: var(--panel)" }, bag.result.map(([label, value], i) =>
        h("p", {}, label + " ", h("b", { k: `result:${k}:${i}`, style: "font-size: 1.25em" }, value))),
      ui.button(`keep:${k}`, "Save result", () => keep(bag.said))));
    const forget = (bag) => { delete bag.result; };
    const pick = (k, bag, key, options) => ui.select(c, k, bag[key], options, (v) => { bag[key] = v; forget(bag); });
    const swap = (bag) => c.set(() => { [bag.from, bag.to] = [bag.to, bag.from]; forget(bag); });
    const kind = units.find((x) => x.name === u.kind), factor = (name) => kind.units.find((x) => x.name === name).is;
    const rate = (code) => rates.find((r) => r.code === code).is;
    const parts = {
      units: () => [ui.field("What", ui.select(c, "kind", u.kind, units.map((x) => x.name), (v) => {
        const next = units.find((x) => x.name === v).units;
        Object.assign(u, { kind: v, from: next[0].name, to: next[1].name }); forget(u); })),
      ui.field("Amount", ui.input(c, "amount:units", u, "amount")),
      h("div.row", {}, pick("from:units", u, "from", kind.units.map((x) => x.name)), ui.button("swap:units", "⇄", () => swap(u)),
        pick("to:units", u, "to", kind.units.map((x) => x.name))),
      run("units", u, () => { const n = number(u.amount); if (n === null) return null;
        const out = ((n * factor(u.from)) / factor(u.to)).toFixed(3);
        u.said = `${n} ${u.from} = ${out} ${u.to}`; return [[`${n} ${u.from} are`, `${out} ${u.to}`]]; }), result("units", u)],
      money: () => [ui.field("Amount", ui.input(c, "amount:money", m, "amount")),
        h("div.row", {}, pick("from:money", m, "from", rates.map((r) => [r.code, `${r.code} · ${r.name}`])),
          ui.button("swap:money", "⇄", () => swap(m)), pick("to:money", m, "to", rates.map((r) => [r.code, `${r.code} · ${r.name}`]))),
        run("money", m, () => { const n = number(m.amount); if (n === null) return null;
          const out = ((n * rate(m.from)) / rate(m.to)).toFixed(2);
          m.said = `${n} ${m.from} = ${out} ${m.to}`; return [[`${n} ${m.from} are`, `${out} ${m.to}`]]; }), result("money", m)],
      loan: () => [ui.field("Sum", ui.input(c, "sum", l, "sum")),
        ui.field("Paid back in", pick("months", l, "months", c.content.months.map((n) => [n, `${n} months`]))),
        ui.field("Interest a year", pick("percent", l, "rate", c.content.percents.map((p) => [p, `${p} %`]))),
        run("loan", l, () => { const n = number(l.sum); if (n === null) return null;
          const month = (n * (1 + (l.rate * l.months) / 1200)) / l.months;
          l.said = `${n} over ${l.months} months at ${l.rate} % = ${month.toFixed(2)} a month`;
          return [["Each month", c.site.currency + month.toFixed(2)], ["In all", c.site.currency + (month * l.months).toFixed(2)]]; }),
        result("loan", l), h("p.muted", { style: "margin-top: 12px" }, `For example for ${items.join(" or ")}.`)],
    };
    return [ui.tabs(c, "tab", c.v.tab, [["units", "Units"], ["money", "Currencies"], ["loan", "Instalments"]],
      (v) => c.set(() => (c.v.tab = v))),
      h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 380px" }, h("div.panel", {}, parts[c.v.tab]()),
        h("div.panel", {}, h("h3", `Saved results (${c.s.saved.length})`), c.s.saved.length ? c.s.saved.map((text, i) =>
          h("div.row", { style: "flex-wrap: nowrap" }, h("span.grow", text), ui.button(`drop:${i}`, "Delete",
            () => c.set(() => c.s.saved.splice(i, 1)), "quiet"))) : h("p.muted", "Nothing saved.")))];
  },
});
