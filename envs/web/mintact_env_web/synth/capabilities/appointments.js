// Appointments: a person, a day from a month calendar, a free time, a reason; moving and cancelling them.
Site.module("appointments", {
  badge: (c) => c.s.booked.length,
  view(c) {
    const { dates } = Site;
    const service = (id) => c.content.services.find((s) => s.id === id);
    const one = (id) => c.s.booked.find((b) => b.id === id);
    const taken = (who, day, time) => c.s.booked.some((b) => b.who === who && b.day === day && b.time === time);
    const free = (who, day) => ((c.content.free[who] || {})[day] || []).filter((time) => !taken(who, day, time));
    const start = (fields) => {
      c.keep(() => (c.v.draft = { who: null, service: null, day: null, time: null, reason: "",
        month: c.content.today.slice(0, 7), ...fields }));
      c.v.error = null;
    };
    const sorted = [...c.s.booked].sort((a, b) => (a.day + a.time < b.day + b.time ? -1 : 1));

    if (!c.path.length || ((c.path[0] === "move" || c.path[0] === "note") && !one(c.path[1]))) return [
      h("div.bar", {}, h("span.muted", `Today is ${dates.said(c.content.today)}`),
        ui.button("new", "New appointment", () => { start({}); c.go("new"); }, "primary")),
      h("h2", "Your appointments"),
      sorted.length ? h("div.list", {}, sorted.map((b) => h("div", {},
        h("div", { style: "width: 13em" }, h("b", dates.said(b.day)), h("br"), h("span", b.time)),
        h("div.grow", {}, h("b", service(b.service).name), h("br"), h("span.muted", `with ${b.who} · ${b.reason || "no note"}`)),
        ui.button(`note:${b.id}`, "Edit note", () => { start({ reason: b.reason }); c.go("note", b.id); }),
        ui.button(`move:${b.id}`, "Reschedule", () => { start({ who: b.who, service: b.service }); c.go("move", b.id); }),
        ui.button(`cancel:${b.id}`, "Cancel", () => ui.dialog("Cancel this appointment?",
          h("p", `${service(b.service).name} with ${b.who} on ${dates.said(b.day)} at ${b.time}.`),
          h("div.row", {}, ui.button("yes", "Yes, cancel it", () => { c.keep(() => (c.s.booked = c.s.booked.filter((x) => x.id !== b.id)));
            ui.close(); ui.toast("Appointment cancelled"); }, "danger"), ui.button("no", "Keep it", () => ui.close()))), "quiet"))))
        : ui.note("You have no appointments."),
    ];
    if (!c.v.draft) start({});
    const d = c.v.draft;

    if (c.path[0] === "note") {
      const b = one(c.path[1]);
      return h("div.panel", {}, h("h2", `${service(b.service).name}, ${dates.said(b.day)}`), h("p.muted", `With ${b.who} at ${b.time}`),
        ui.field("Note", ui.area(c, "reason", d, "reason")), h("div.row", {},
          ui.button("save", "Save note", () => { c.keep(() => (b.reason = d.reason.trim())); c.go(); }, "primary"),
          ui.button("back", "Back", () => c.go())));
    }

    const moved = c.path[0] === "move" ? one(c.path[1]) : null;
    const book = () => {
      if (!d.who || !d.service || !d.day || !d.time || (!moved && !d.reason.trim()))
        return c.set(() => (c.v.error = moved ? "Choose a day and a time."
          : "Choose with whom, what, a day and a time, and give a reason."));
      c.keep(() => {
        if (moved) { moved.day = d.day; moved.time = d.time; }
        else c.s.booked.push({ id: `n${c.s.next++}`, who: d.who, service: d.service, day: d.day, time: d.time, reason: d.reason.trim() });
        c.v.error = null;
      });
      c.go();
      ui.toast(moved ? "Appointment moved" : "Appointment booked");
    };
    const times = d.who && d.day ? free(d.who, d.day) : [];
    return [
      h("h2", moved ? `Reschedule: ${service(moved.service).name}` : "New appointment"),
      moved ? h("p.muted", `With ${moved.who}; now on ${dates.said(moved.day)} at ${moved.time}`) : h("div.row", {},
        ui.field("With", ui.select(c, "who", d.who, c.content.staff.map((p) => [p.name, `${p.name}, ${p.kind}`]),
          (v) => { d.who = v; d.day = d.time = null; })),
        ui.field("What", ui.select(c, "service", d.service, c.content.services.map((s) => [s.id, s.name]), (v) => (d.service = v)))),
      h("div.split", { style: "grid-template-columns: 340px minmax(0, 1fr)" },
        h("div.panel", {}, ui.month(c, "day", d.month, (m) => c.set(() => (d.month = m)),
          (day) => ({ chosen: day === d.day, disabled: !d.who || !free(d.who, day).length, mark: d.who && free(d.who, day).length }),
          (day) => c.set(() => { d.day = day; d.time = null; })),
        h("small", d.who ? "Outlined days have free times." : "Choose a person to see free days.")),
        h("div.panel", {}, h("h3", d.day ? dates.said(d.day) : "Times"),
          d.day ? [h("p.muted", { k: "free" }, `${times.length} free ${times.length === 1 ? "time" : "times"}`),
            h("div.row", {}, times.map((t) => ui.button(`time:${t}`, t, () => c.set(() => (d.time = t)), t === d.time ? "on" : "")))]
            : h("p.muted", "Choose a day first."),
          moved ? null : ui.field("Reason", ui.input(c, "reason", d, "reason", { placeholder: "In a few words" })),
          c.v.error ? ui.note(c.v.error, "error") : null,
          h("div.row", {}, ui.button("book", moved ? "Move appointment" : "Book appointment", book, "primary"),
            ui.button("back", "Back", () => c.go())))),
    ];
  },
});
