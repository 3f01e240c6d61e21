// Journeys: from, to, days, passengers and class; a list of connections to choose from; one's trips.
Site.module("travel", {
  badge: (c) => c.s.trips.length,
  view(c) {
    const { dates } = Site;
    const fresh = () => ({ from: null, to: null, back: false, out: null, home: null, people: 1, cabin: c.content.cabins[0].id,
      month: c.content.today.slice(0, 7), calendar: null, chosen: [], sort: "departure", direct: false });
    const f = (c.v.form ??= fresh());
    const cabin = (id) => c.content.cabins.find((x) => x.id === id);
    const sum = (lines, d) => lines.reduce((n, l) => n + l.price, 0) * cabin(d.cabin).factor * d.people;
    const line = (id) => c.content.lines.find((l) => l.id === id);
    const span = (m) => `${Math.floor(m / 60)} h ${String(m % 60).padStart(2, "0")}`;
    const folk = (n) => `${n} ${n === 1 ? "passenger" : "passengers"}`;
    const stops = (l) => (l.changes ? `${l.changes} ${l.changes === 1 ? "change" : "changes"}` : "direct");
    const tabs = ui.tabs(c, "part", c.path[0] === "trips" ? "trips" : "search",
      [["search", "Search"], ["trips", `My trips (${c.s.trips.length})`]],
      (v) => c.go(...(v === "trips" ? ["trips"] : [])));

    if (c.path[0] === "trips") return [tabs, c.s.trips.length ? h("div.list", {}, c.s.trips.map((t) => h("div", {},
      h("div.grow", {}, h("b", `${t.from} – ${t.to}`), h("br"), h("span.muted", [`${dates.said(t.out)}, ${line(t.lines[0]).departure}`,
        t.home ? `back ${dates.said(t.home)}, ${line(t.lines[1]).departure}` : "one way", folk(t.people),
        cabin(t.cabin).name].join(" · "))),
      h("b", c.money(sum(t.lines.map(line), t))),
      ui.button(`cancel:${t.id}`, "Cancel trip", () => ui.dialog("Cancel this trip?", h("p", `${t.from} – ${t.to}, ${dates.said(t.out)}`),
        h("div.row", {}, ui.button("yes", "Yes, cancel it", () => { c.keep(() => (c.s.trips = c.s.trips.filter((x) => x.id !== t.id)));
          ui.close(); }, "danger"), ui.button("no", "Keep it", () => ui.close())))))))
      : ui.note("No trips yet.")];

    const picker = (k, label) => h("div.field", {}, h("span", label),
      ui.button(k, f[k] ? dates.said(f[k]) : "Choose a day", () => c.set(() => (f.calendar = f.calendar === k ? null : k))),
      f.calendar !== k ? null : h("div.panel", { style: "position: absolute; z-index: 4; width: 320px; margin-top: 4px" },
        ui.month(c, `${k}-day`, f.month, (m) => c.set(() => (f.month = m)),
          (day) => ({ chosen: day === f[k], disabled: day < (k === "home" && f.out ? f.out : c.content.today) }),
          (day) => c.set(() => { f[k] = day; f.calendar = null; }))));
    const search = () => {
      const problem = !f.from || !f.to ? "Choose where from and where to." : f.from === f.to ? "From and to are the same." :
        !f.out ? "Choose a day." : f.back && !f.home ? "Choose the day of your return." :
          f.back && f.home < f.out ? "You return before you leave." : null;
      c.keep(() => { c.v.error = problem; f.chosen = []; f.sort = "departure"; f.direct = false; });
      if (problem) c.set(); else c.go("results");
    };
    if (!c.path.length || !f.from || !f.to || !f.out) return [tabs, h("div.panel", {},
      h("div.row", {}, ui.radio(c, "way", f, "back", false, "One way"), ui.radio(c, "way", f, "back", true, "Return")),
      h("div.row", { style: "align-items: flex-start; gap: 20px" },
        ui.field("From", ui.select(c, "from", f.from, c.content.towns, (v) => (f.from = v))),
        ui.button("swap", "Swap", () => c.set(() => ([f.from, f.to] = [f.to, f.from])), "quiet"),
        ui.field("To", ui.select(c, "to", f.to, c.content.towns, (v) => (f.to = v))),
        picker("out", "Outward"), f.back ? picker("home", "Return") : null),
      h("div.row", { style: "gap: 20px" }, h("div.field", {}, h("span", "Passengers"), h("span.stepper", {},
        ui.button("fewer", "−", () => c.set(() => (f.people = Math.max(1, f.people - 1)))), h("b", { k: "people" }, String(f.people)),
        ui.button("more", "+", () => c.set(() => (f.people = Math.min(6, f.people + 1)))))),
      ui.field("Class", ui.select(c, "cabin", f.cabin, c.content.cabins.map((x) => [x.id, x.name]), (v) => (f.cabin = v)))),
      c.v.error ? ui.note(c.v.error, "error") : null, ui.button("search", `Search ${c.content.modes}`, search, "primary"))];

    const asked = `${f.from} – ${f.to} · ${folk(f.people)} · ${cabin(f.cabin).name}`;
    if (c.path[0] === "review" && f.chosen.length) {
      const lines = f.chosen.map(line);
      const book = () => {
        c.keep(() => { c.s.trips.push({ id: `n${c.s.next++}`, from: f.from, to: f.to, out: f.out, home: f.back ? f.home : null,
          people: f.people, cabin: f.cabin, lines: [...f.chosen] }); c.v.form = fresh(); });
        c.go("trips");
        ui.toast("Your trip is booked");
      };
      return [tabs, h("h2", "Review your trip"), h("p", asked), ui.table(["", "Day", "Departure", "Arrival", "Journey"], lines.map((l, i) =>
        [i ? "Return" : "Outward", dates.said(i ? f.home : f.out), h("b", l.departure), l.arrival, `${span(l.minutes)}, ${stops(l)}`])),
      h("p.total", {}, "Total ", h("b", { k: "total" }, c.money(sum(lines, f)))),
      h("div.row", {}, ui.button("again", "‹ New search", () => c.go()), ui.button("confirm", "Confirm and book", book, "primary"))];
    }
    const home = f.back && f.chosen.length === 1;
    const [a, b] = home ? [f.to, f.from] : [f.from, f.to];
    const order = { departure: (l) => l.departure, price: (l) => l.price, time: (l) => l.minutes }[f.sort];
    const found = c.content.lines.filter((l) => l.from === a && l.to === b && !(f.direct && l.changes))
      .sort((x, y) => (order(x) < order(y) ? -1 : order(x) > order(y) ? 1 : 0));
    const choose = (l) => {
      c.keep(() => { f.chosen.push(l.id); f.sort = "departure"; f.direct = false; });
      if (f.back && f.chosen.length === 1) c.set(); else c.go("review");
    };
    return [tabs, h("div.bar", {}, h("div", {}, h("h2", `${home ? "Return" : "Outward"}: ${a} – ${b}`),
      h("p.muted", { style: "margin: 0" }, `${dates.said(home ? f.home : f.out)} · ${folk(f.people)} · ${cabin(f.cabin).name}`)),
    ui.button("again", "‹ New search", () => c.go())),
    h("div.row", { style: "gap: 20px" }, ui.select(c, "sort", f.sort, [["departure", "By departure"], ["price", "Cheapest first"],
      ["time", "Shortest first"]], (v) => (f.sort = v)), ui.check(c, "direct", f, "direct", "Direct only")),
    found.length ? h("div.list", {}, found.map((l) => h("div", {}, h("b", { style: "width: 8em" }, `${l.departure} – ${l.arrival}`),
      h("span.grow.muted", `${span(l.minutes)} · ${stops(l)}`), h("b", { k: `price:${l.id}` }, c.money(sum([l], f))),
      ui.button(`choose:${l.id}`, "Choose", () => choose(l), "primary")))) : ui.note(`No ${c.content.mode} fits.`)];
  },
});
