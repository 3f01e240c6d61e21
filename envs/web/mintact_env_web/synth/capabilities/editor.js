// A document of lines: editing, kinds of lines, order, find and replace, undo, versions.
Site.module("editor", {
  view(c) {
    const lines = c.s.lines;
    const here = c.v.line && lines.find((l) => l.id === c.v.line);
    const words = (list) => list.reduce((n, l) => n + l.text.split(/\s+/).filter(Boolean).length, 0);
    // every change keeps what was before it, for undo
    const change = (make) => c.set(() => {
      const before = structuredClone(c.s.lines);
      make();
      if (JSON.stringify(before) === JSON.stringify(c.s.lines)) return;
      c.s.past.push(before);
      c.s.future = [];
    });
    const travel = (from, to) => c.set(() => {
      c.s[to].push(c.s.lines);
      c.s.lines = c.s[from].pop();
      c.v.line = null;
    });
    const drawn = (l) => ({
      heading: () => h("h2", { style: "margin: 0" }, l.text),
      bullet: () => h("span", "•  ", l.text),
      text: () => h("span", l.text),
    })[l.kind]();

    if (c.path[0] === "versions") {
      const chosen = c.s.versions.find((v) => v.id === c.path[1]);
      return h("div.split", { style: "grid-template-columns: 300px minmax(0, 1fr)" }, h("div.stack", {},
        ui.button("document", "‹ Back to the document", () => c.go()),
        h("div.list", {}, c.s.versions.map((v) => h("button" + (v === chosen ? ".here" : ""), { k: `version:${v.id}`, type: "button",
          onclick: () => c.go("versions", v.id) }, h("div", {}, h("b", v.name || "No name"), h("br"),
          h("small", `${v.when}, ${v.who}`)))))),
      chosen ? h("div.panel", {}, h("div.bar", {},
        h("div", {}, h("b", chosen.when), h("small", { k: "words" }, ` ${words(chosen.lines)} words`)),
        ui.button("restore", "Restore this version", () => ui.dialog("Restore this version?",
          h("p", "The present text can be had back by Undo."), h("div.row", {}, ui.button("yes", "Restore", () => {
            ui.close();
            c.go();
            change(() => (c.s.lines = structuredClone(chosen.lines)));
          }, "primary"), ui.button("no", "Not now", () => ui.close()))), "primary")),
      chosen.lines.map((l) => h("p", {}, drawn(l)))) : ui.note("Choose a version to see it."));
    }
    const select = (l) => c.set(() => { c.v.line = l.id; c.v.text = null; });
    const apply = () => { const text = c.v.text.trim(); c.v.text = null; if (text) change(() => (here.text = text)); else c.set(); };
    const move = (by) => change(() => {
      const at = lines.indexOf(here);
      if (at + by < 0 || at + by >= lines.length) return;
      lines.splice(at, 1);
      lines.splice(at + by, 0, here);
    });
    const add = () => change(() => {
      const l = { id: `n${c.s.next++}`, kind: "text", text: "New line" };
      lines.splice(here ? lines.indexOf(here) + 1 : lines.length, 0, l);
      c.v.line = l.id;
      c.v.text = "";
    });
    const replace = () => {
      const find = c.v.find || "";
      if (!find) return;
      const n = lines.reduce((sum, l) => sum + l.text.split(find).length - 1, 0);
      change(() => { for (const l of lines) l.text = l.text.split(find).join(c.v.with || ""); });
      ui.toast(`${n} replaced`);
    };
    const name = () => c.set(() => {
      c.s.versions.unshift({ id: `n${c.s.next++}`, when: "Just now", who: "You", name: (c.v.name || "").trim(),
        lines: structuredClone(c.s.lines) });
      c.v.name = "";
      c.v.naming = false;
      ui.toast("Version saved");
    });
    const tool = (k, label, onclick, off) => h("button", { k, type: "button", onclick, disabled: off, style: "padding: 4px 10px" }, label);
    const kind = (k, label) => h("button" + (here?.kind === k ? ".on" : ""), { k: `kind:${k}`, type: "button", disabled: !here,
      style: "padding: 4px 10px", onclick: () => change(() => (here.kind = k)) }, label);
    return [
      h("div.bar", {}, h("h2", { style: "margin: 0" }, c.content.name), h("div.row", { style: "margin: 0" },
        ui.button("naming", "Save as version", () => c.set(() => (c.v.naming = !c.v.naming))),
        ui.button("versions", "Versions", () => c.go("versions")))),
      c.v.naming ? h("div.row", {}, ui.input(c, "name", c.v, "name", { placeholder: "Name of the version", style: "max-width: 280px" }),
        ui.button("name-now", "Save version", name, "primary")) : null,
      h("div.row", { style: "gap: 6px" }, tool("undo", "↶ Undo", () => travel("past", "future"), !c.s.past.length),
        tool("redo", "↷ Redo", () => travel("future", "past"), !c.s.future.length), kind("text", "Text"), kind("heading", "Heading"),
        kind("bullet", "Bullet"), tool("edit", "Edit", () => c.set(() => (c.v.text = here.text)), !here),
        tool("up", "↑ Up", () => move(-1), !here), tool("down", "↓ Down", () => move(1), !here),
        tool("delete", "Delete", () => change(() => (c.s.lines = lines.filter((l) => l !== here))), !here),
        tool("add", "+ Line", add), tool("replacing", "Find and replace", () => c.set(() => (c.v.replacing = !c.v.replacing)))),
      c.v.replacing ? h("div.row", {}, ui.input(c, "find", c.v, "find", { placeholder: "Find", style: "max-width: 200px" }),
        ui.input(c, "with", c.v, "with", { placeholder: "Replace with", style: "max-width: 200px" }),
        ui.button("replace-all", "Replace all", replace, "primary")) : null,
      h("div.panel", { style: "min-height: 320px" }, lines.map((l) => l === here && typeof c.v.text === "string"
        ? h("div", { style: "padding: 6px" }, ui.area(c, "line-text", c.v, "text", { rows: 3 }), h("div.row", { style: "margin-top: 6px" },
          ui.button("apply", "Apply", apply, "primary"), ui.button("cancel", "Cancel", () => c.set(() => (c.v.text = null)))))
        : h("div", { k: `line:${l.id}`, onclick: () => select(l), style: "padding: 5px 10px; cursor: pointer; border-left: 3px solid " +
          (l === here ? "var(--accent); background: var(--panel)" : "transparent") }, drawn(l)))),
      h("p.muted", { k: "count", style: "margin-top: 8px" }, here ? "1 line selected · " : "Click a line to select it · ",
        `${words(lines)} words`),
    ];
  },
});
