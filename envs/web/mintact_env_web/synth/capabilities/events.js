// A calendar by month or week: events to open, make, move (also by dragging), repeat and delete.
Site.module("events", {
  view(c) {
    const { dates } = Site;
    c.v.at ??= c.content.today;
    c.v.view ??= "month";
    const one = (id) => c.s.events.find((e) => e.id === id);
    const on = (day) => c.s.events.filter((e) => e.day === day).sort((a, b) => (a.time < b.time ? -1 : 1));
    const edit = (fields) => {
      c.v.draft = { title: "", day: c.v.at, time: "10:00", hours: 1, place: null, times: 1, ...fields };
      c.v.draft.month = c.v.draft.day.slice(0, 7);
      c.v.error = null;
      c.keep();
      c.go(fields.id ? "edit" : "new", fields.id || "event");
    };
    const hours = (n) => `${n} ${n === 1 ? "hour" : "hours"}`;
    const chip = (e, tall) => ui.draggable(h("button.chip" + (tall ? ".tall" : ""), { k: `event:${e.id}`, type: "button",
      title: e.title, onclick: () => c.go("event", e.id) }, h("b", e.time), " ", e.title,
    tall ? [h("br"), h("small", `${hours(e.hours)}, ${e.place}`)] : null), (day) => c.set(() => (e.day = day)));

    if (c.path[0] === "event" && one(c.path[1])) {
      const e = one(c.path[1]);
      return h("div.panel", { style: "max-width: 620px" }, h("h2", e.title), ui.table(["When", "How long", "Where"],
        [[`${dates.said(e.day)}, ${e.time}`, hours(e.hours), h("span", { k: "place" }, e.place)]]),
      h("div.row", {}, ui.button("edit", "Edit", () => edit(e), "primary"),
        ui.button("delete", "Delete", () => ui.dialog(`Delete “${e.title}”?`, h("p", `${dates.said(e.day)}, ${e.time}`),
          h("div.row", {}, ui.button("yes", "Delete", () => {
            c.keep(() => (c.s.events = c.s.events.filter((x) => x !== e)));
            ui.close();
            c.go();
          }, "danger"), ui.button("no", "Keep", () => ui.close())))),
        ui.button("back", "Back to the calendar", () => c.go())));
    }
    if ((c.path[0] === "edit" || c.path[0] === "new") && c.v.draft) {
      const d = c.v.draft;
      const save = () => {
        if (!d.title.trim() || !d.place) return c.set(() => (c.v.error = "An event needs a title and a place."));
        const kept = { title: d.title.trim(), day: d.day, time: d.time, hours: d.hours, place: d.place };
        c.keep(() => {
          if (d.id) Object.assign(one(d.id), kept);
          else for (let n = 0; n < d.times; n++)
            c.s.events.push({ id: `n${c.s.next++}`, ...kept, day: dates.add(d.day, 7 * n) });
          c.v.at = d.day;
          c.v.draft = null;
        });
        c.go();
        ui.toast("Saved in the calendar");
      };
      const clock = Array.from({ length: 27 }, (_, n) => `${String(8 + (n >> 1)).padStart(2, "0")}:${n % 2 ? "30" : "00"}`);
      return h("div.panel", {}, h("h2", d.id ? "Edit event" : "New event"),
        h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 340px" }, h("div", {},
          ui.field("Title", ui.input(c, "title", d, "title")),
          h("div.row", {}, ui.field("Begins at", ui.select(c, "time", d.time, clock, (v) => (d.time = v))),
            ui.field("How long", ui.select(c, "hours", d.hours, [1, 2, 3, 4].map((n) => [n, hours(n)]), (v) => (d.hours = v)))),
          ui.field("Where", ui.select(c, "where", d.place, c.content.places, (v) => (d.place = v))),
          d.id ? null : ui.field("Repeat", ui.select(c, "times", d.times, [[1, "Only once"], ...[2, 3, 4, 6].map((n) =>
            [n, `Weekly, ${n} times in all`])], (v) => (d.times = v))),
          c.v.error ? ui.note(c.v.error, "error") : null,
          h("div.row", {}, ui.button("save", "Save", save, "primary"), ui.button("back", "Cancel", () => c.go()))),
        h("div", {}, h("p.strong", dates.said(d.day)), ui.month(c, "day", d.month, (m) => c.set(() => (d.month = m)),
          (day) => ({ chosen: day === d.day, mark: on(day).length }), (day) => c.set(() => (d.day = day))))));
    }
    const month = c.v.at.slice(0, 7), weekly = c.v.view === "week";
    const monday = dates.add(c.v.at, -dates.weekday(c.v.at));
    const turn = (by) => c.set(() => (c.v.at = weekly ? dates.add(c.v.at, 7 * by) : dates.shift(month, by) + "-01"));
    const shown = weekly ? [Array.from({ length: 7 }, (_, n) => dates.add(monday, n))] : dates.weeks(month);
    const count = shown.flat().reduce((n, day) => n + (weekly || day.slice(0, 7) === month ? on(day).length : 0), 0);
    const cell = (day) => h("div" + (weekly || day.slice(0, 7) === month ? "" : ".other"), { k: `cell:${day}`, "data-drop": day,
      style: weekly ? "min-height: 320px" : "" },
    ui.button(`plus:${day}`, "+", () => edit({ day }), "plus"),
    h(day === c.content.today ? "b" : "small", { style: day === c.content.today ? "color: var(--accent)" : "" },
      weekly ? dates.said(day).slice(4, -5) : String(+day.slice(8))),
    on(day).map((e) => chip(e, weekly)));
    return [
      h("div.bar", {}, h("div.row", { style: "margin: 0" }, ui.button("previous", "‹", () => turn(-1)),
        ui.button("next", "›", () => turn(1)),
        ui.button("today", "Today", () => c.set(() => (c.v.at = c.content.today))),
        h("b", { k: "shown", style: "font-size: 1.2em" }, weekly ? `Week of ${dates.said(monday)}` : dates.title(month)),
        h("small", { k: "count" }, `${count} ${count === 1 ? "event" : "events"}`)),
      h("div.row", { style: "margin: 0" }, ["month", "week"].map((v) => ui.button(`view:${v}`, v === "month" ? "Month" : "Week",
        () => c.set(() => (c.v.view = v)), v === c.v.view ? "on" : "")), ui.button("new", "New event", () => edit({}), "primary"))),
      h("div.week", {}, dates.names.map((d) => h("small", d)), shown.flat().map(cell)),
    ];
  },
});
