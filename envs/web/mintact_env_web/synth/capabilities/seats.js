// A hall with its seats: choose some, hold them, change or give up a hold, book what is held.
Site.module("seats", {
  badge: (c) => c.s.holds.length,
  view(c) {
    const { shows, rows, wide } = c.content;
    c.v.show ??= shows[0].id;
    c.v.picked ??= [];
    const show = (id) => shows.find((s) => s.id === id);
    const order = (seats) => [...seats].sort((a, b) => a[0].localeCompare(b[0]) || a.slice(1) - b.slice(1));
    const price = (id, seat) => show(id).prices[rows.find((r) => r.row === seat[0]).level].price;
    const sum = (id, seats) => seats.reduce((total, seat) => total + price(id, seat), 0);
    const own = (id, but) => [...c.s.holds, ...c.s.booked].filter((x) => x.show === id && x.id !== but).flatMap((x) => x.seats);
    if (c.path[0] === "mine") {
      const line = (x, buttons) => h("div", {}, h("div.grow", {}, h("b", show(x.show).title), h("br"), h("small", show(x.show).when)),
        h("span", { k: `seats:${x.id}` }, "Seats " + x.seats.join(", ")), h("b", c.money(sum(x.show, x.seats))), buttons);
      const drop = (x) => c.set(() => (c.s.holds = c.s.holds.filter((y) => y !== x)));
      const change = (x) => { c.keep(() => { c.v.show = x.show; c.v.picked = [...x.seats]; c.v.changing = x.id; }); c.go(); };
      const book = (x) => ui.dialog("Book these seats?", h("p", `${show(x.show).title}: ${x.seats.join(", ")}`),
        h("p", "To pay: ", h("b", c.money(sum(x.show, x.seats)))), h("div.row", { style: "margin: 0" },
          ui.button("confirm", "Book now", () => { drop(x); c.keep(() => c.s.booked.push(x)); ui.close(); }, "primary"),
          ui.button("not-yet", "Not yet", () => ui.close())));
      return [ui.button("plan", "‹ Seat plan", () => c.go()), h("h2", { style: "margin-top: 18px" }, "Held for you"),
        c.s.holds.length ? h("div.list", {}, c.s.holds.map((x) => line(x, [ui.button(`book:${x.id}`, "Book", () => book(x), "primary"),
          ui.button(`change:${x.id}`, "Change", () => change(x)), ui.button(`drop:${x.id}`, "Release", () => drop(x), "quiet")])))
          : ui.note("You hold no seats."),
        h("h2", { style: "margin-top: 22px" }, "Booked"),
        c.s.booked.length ? h("div.list", {}, c.s.booked.map((x) => line(x, h("span.tag", "Booked")))) : ui.note("Nothing booked yet.")];
    }
    const now = show(c.v.show), mine = own(now.id, c.v.changing);
    const toggle = (seat) => c.set(() => (c.v.picked = c.v.picked.includes(seat) ? c.v.picked.filter((x) => x !== seat)
      : order([...c.v.picked, seat])));
    const pick = (id) => c.set(() => { c.v.show = id; c.v.picked = []; c.v.changing = null; });
    const keep = () => {
      if (c.v.changing) c.s.holds.find((x) => x.id === c.v.changing).seats = c.v.picked;
      else c.s.holds.push({ id: `h${c.s.next++}`, show: now.id, seats: c.v.picked });
      c.keep(() => { c.v.picked = []; c.v.changing = null; });
      c.go("mine");
    };
    const colour = ["#8a6d1d", "#2b6e9e", "#4b7f52"];
    const seat = (row, level, n) => {
      const id = row + n, gone = now.taken.includes(id) || mine.includes(id), chosen = c.v.picked.includes(id);
      return h("button", { k: `seat:${id}`, type: "button", disabled: gone, onclick: () => toggle(id), title: id,
        style: `width: 38px; height: 30px; padding: 0; font-size: 12px; text-transform: none; `
          + `border: 2px solid ${gone ? "var(--line)" : colour[level]};`
          + (chosen ? `background: ${colour[level]}; color: #fff` : "") }, gone ? "×" : String(n));
    };
    const gap = (n) => (n === wide / 2 ? "margin-right: 22px" : "");
    const plan = h("div.stack", { style: "gap: 6px; align-items: center" },
      h("div", { style: "width: 80%; text-align: center; background: var(--line); border-radius: 4px; margin-bottom: 8px" },
        c.content.front),
      rows.map((r) => h("div", { style: "display: flex; gap: 5px; align-items: center" }, h("b", { style: "width: 20px" }, r.row),
        Array.from({ length: wide }, (_, i) => h("span", { style: gap(i + 1) }, seat(r.row, r.level, i + 1))))));
    const legend = h("div.row", { style: "margin-top: 14px; justify-content: center" }, now.prices.map((p, i) => h("span", {
      style: `border-left: 14px solid ${colour[i]}; padding-left: 8px; margin-right: 14px` }, `${p.name} `, h("b", c.money(p.price)))));
    return [
      h("div.bar", {}, ui.select(c, "show", c.v.show, shows.map((s) => [s.id, `${s.title} · ${s.when}`]), pick),
        ui.button("mine", `My seats (${c.s.holds.length + c.s.booked.length})`, () => c.go("mine"))),
      h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 250px" }, h("div.panel", {}, plan, legend),
        h("div.panel", {}, h("h3", c.v.changing ? "Change your seats" : "Your choice"), c.v.picked.length ? null : h("p.muted",
          "Click free seats."),
          c.v.picked.map((s) => h("div.bar", { style: "margin: 0" }, h("span", "Seat " + s), h("span", c.money(price(now.id, s))))),
          h("p.total", {}, "Total ", h("b", { k: "total" }, c.money(sum(now.id, c.v.picked)))),
          h("button.primary", { k: "hold", type: "button", disabled: !c.v.picked.length, onclick: keep },
            c.v.changing ? "Save change" : "Hold seats"))),
    ];
  },
});
