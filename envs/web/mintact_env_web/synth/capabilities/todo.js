// A list of jobs: add, tick off, give a priority, delete; three views of it.
Site.module("todo", {
  badge: (c) => c.s.jobs.filter((j) => !j.done).length,
  view(c) {
    c.v.draft ??= "";
    c.v.show ??= "all";
    const add = () => {
      const text = c.v.draft.trim();
      if (!text) return;
      c.set(() => { c.s.jobs.push({ id: `n${c.s.next++}`, text, done: false, priority: "normal" }); c.v.draft = ""; });
    };
    const shown = c.s.jobs.filter((j) => c.v.show === "all" || (c.v.show === "done") === j.done);
    return [
      h("div.row", {}, ui.input(c, "new", c.v, "draft", { placeholder: "What has to be done?", style: "max-width: 420px",
        onkeydown: (e) => e.key === "Enter" && add() }), ui.button("add", "Add", add, "primary")),
      ui.tabs(c, "show", c.v.show, [["all", "All"], ["open", "Open"], ["done", "Done"]], (v) => c.set(() => (c.v.show = v))),
      shown.length ? h("div.list", {}, shown.map((j) => h("div", {},
        h("input", { type: "checkbox", k: `done:${j.id}`, checked: j.done, style: "width: 18px; height: 18px",
          onchange: () => c.set(() => (j.done = !j.done)) }),
        h("span.grow" + (j.done ? ".muted" : ""), { style: j.done ? "text-decoration: line-through" : "" }, j.text),
        ui.select(c, `priority:${j.id}`, j.priority, [["high", "High"], ["normal", "Normal"], ["low", "Low"]], (v) => (j.priority = v)),
        ui.button(`delete:${j.id}`, "Delete", () => c.set(() => (c.s.jobs = c.s.jobs.filter((x) => x !== j))), "quiet"))))
        : ui.note("Nothing in this view."),
      h("div.bar", { style: "margin-top: 12px" }, h("span.muted", `${c.s.jobs.filter((j) => !j.done).length} open of ${c.s.jobs.length}`),
        ui.button("clear", "Delete all that are done", () => c.set(() => (c.s.jobs = c.s.jobs.filter((j) => !j.done))))),
    ];
  },
});
