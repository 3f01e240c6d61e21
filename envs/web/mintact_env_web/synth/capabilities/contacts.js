// An address book: search, groups, a form, several at once, two of the same person made one.
Site.module("contacts", {
  view(c) {
    c.v.query ??= "";
    c.v.group ??= "all";
    c.v.marked ??= [];
    const one = (id) => c.s.people.find((p) => p.id === id);
    const marked = c.v.marked.filter(one);
    const shown = c.s.people.filter((p) => (c.v.group === "all" || p.group === c.v.group) &&
      Object.values(p).join(" ").toLowerCase().includes(c.v.query.trim().toLowerCase()))
      .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id < b.id ? -1 : 1));
    const edit = (id) => { c.v.draft = id ? { ...one(id) } : { name: "", email: "", phone: "", firm: "", group: null }; c.v.error = null;
      c.go("edit", id || "new"); };
    const search = () => c.set(() => (c.v.query = c.v.typed || ""));
    const initials = (p) => h("span.logo", { style: "border-radius: 50%; width: 2.3em; height: 2.3em; flex: none" },
      p.name.split(" ").map((x) => x[0]).join("").slice(0, 2));

    if (c.path[0] === "edit" && c.v.draft) {
      const d = c.v.draft;
      const save = () => {
        const tidy = Object.fromEntries(Object.entries(d).map(([key, x]) => [key, typeof x === "string" ? x.trim() : x]));
        if (!tidy.name) return c.set(() => (c.v.error = "A contact needs a name."));
        c.keep(() => {
          if (tidy.id) Object.assign(one(tidy.id), tidy);
          else c.s.people.push({ id: `n${c.s.next++}`, ...tidy });
          c.v.draft = null;
        });
        c.go();
        ui.toast("Contact saved");
      };
      return h("div.panel", { style: "max-width: 560px" }, h("h2", d.id ? "Edit contact" : "New contact"),
        ui.field("Name", ui.input(c, "name", d, "name")), ui.field("E-mail", ui.input(c, "email", d, "email")),
        ui.field("Phone", ui.input(c, "phone", d, "phone")), ui.field("Organisation", ui.input(c, "firm", d, "firm")),
        ui.field("Group", ui.select(c, "group", d.group, [[null, "No group"], ...c.s.groups], (v) => (d.group = v), "No group")),
        c.v.error ? ui.note(c.v.error, "error") : null, h("div.row", {}, ui.button("save", "Save", save, "primary"),
          ui.button("back", "Cancel", () => c.go()), d.id ? ui.button("delete", "Delete contact", () => ui.dialog(`Delete ${d.name}?`,
            h("p", "This cannot be undone."), h("div.row", {}, ui.button("yes", "Delete", () => {
              c.keep(() => { c.s.people = c.s.people.filter((p) => p.id !== d.id); c.v.draft = null; });
              ui.close();
              c.go();
            }, "danger"), ui.button("no", "Keep", () => ui.close()))), "quiet") : null));
    }
    if (c.path[0] === "merge" && marked.length === 2) {
      const [a, b] = marked.map(one), keys = [["name", "Name"], ["email", "E-mail"], ["phone", "Phone"],
        ["firm", "Organisation"], ["group", "Group"]];
      const pick = (c.v.pick ??= {});
      // where only one has a value, that is kept; where both differ, one chooses
      const value = (key) => (a[key] && b[key] && a[key] !== b[key] ? (pick[key] === "b" ? b[key] : a[key]) : a[key] || b[key]);
      const merge = () => {
        c.keep(() => {
          for (const [key] of keys) a[key] = value(key);
          c.s.people = c.s.people.filter((p) => p !== b);
          c.v.marked = [];
          c.v.pick = null;
        });
        c.go();
        ui.toast("Two contacts were merged");
      };
      return h("div.panel", {}, h("h2", "Merge two contacts"), h("p.muted", "Where they differ, choose what to keep."),
        ui.table(["", "First", "Second"], keys.map(([key, label]) => [h("b", label), ...[["a", a], ["b", b]].map(([side, p]) =>
          a[key] && b[key] && a[key] !== b[key] ? h("label.check", { k: `${key}:${side}`, style: "padding: 0" },
            h("input", { type: "radio", name: key, checked: (pick[key] || "a") === side, onchange: () => c.set(() => (pick[key] = side)) }),
            h("span", p[key])) : p[key] || "–")])),
        h("div.row", {}, ui.button("merge-now", "Merge", merge, "primary"), ui.button("back", "Cancel", () => c.go())));
    }
    const into = (group) => c.set(() => { for (const id of marked) one(id).group = group; c.v.marked = []; });
    const found = () => {
      const name = (c.v.newgroup || "").trim();
      if (!name || c.s.groups.includes(name)) return;
      c.set(() => { c.s.groups.push(name); c.v.newgroup = ""; });
    };
    const tab = (key, label, n) => h("button" + (c.v.group === key ? ".here" : ""), { k: `show:${key}`, type: "button",
      onclick: () => c.set(() => { c.v.group = key; c.v.marked = []; }) }, h("span.grow", label), h("small", String(n)));
    return h("div.split", { style: "grid-template-columns: 230px minmax(0, 1fr)" },
      h("div.stack", {}, ui.button("new", "New contact", () => edit(null), "primary"),
        h("div.list", {}, tab("all", "All contacts", c.s.people.length), c.s.groups.map((g) =>
          tab(g, g, c.s.people.filter((p) => p.group === g).length))),
        ui.input(c, "group-name", c.v, "newgroup", { placeholder: "Name of a new group" }), ui.button("add-group", "Add group", found)),
      h("div", {}, h("div.bar", {}, h("div.row", { style: "margin: 0; flex-wrap: nowrap" },
        ui.input(c, "search", c.v, "typed", { placeholder: "Name, phone, e-mail…", onkeydown: (e) => e.key === "Enter" && search() }),
        ui.button("find", "Search", search)), marked.length ? h("div.row", { style: "margin: 0" }, h("b", `${marked.length} selected`),
        ui.select(c, "into", null, c.s.groups, into, "Move to group…"),
        ui.button("merge", "Merge", () => { c.v.pick = null; c.go("merge"); }, marked.length === 2 ? "" : "quiet")) : null),
      shown.length ? h("div.list", {}, shown.map((p) => h("div", {},
        h("input", { type: "checkbox", k: `mark:${p.id}`, checked: marked.includes(p.id), style: "width: 18px; height: 18px",
          onchange: () => c.set(() => (c.v.marked = marked.includes(p.id) ? marked.filter((x) => x !== p.id) : [...marked, p.id])) }),
        initials(p),
        h("div.grow", {}, h("b", { k: `name:${p.id}` }, p.name), " ", p.group ? h("span.tag", p.group) : null, h("br"),
          h("small", { k: `details:${p.id}` }, [p.firm, p.email, p.phone].filter(Boolean).join(" · "))),
        ui.button(`edit:${p.id}`, "Edit", () => edit(p.id))))) : ui.note("Nobody was found.")));
  },
});
