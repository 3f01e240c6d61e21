// Documents and who may read or change them: people with roles, a link for others.
Site.module("sharing", {
  view(c) {
    const { roles, links } = c.content;
    const doc = c.s.docs.find((d) => d.id === c.path[0]);
    const owner = (d) => d.people.find((p) => p.role === "Owner");
    if (!doc) {
      const needle = (c.v.find ?? "").toLowerCase();
      const shown = c.s.docs.filter((d) => d.title.toLowerCase().includes(needle));
      return [h("div.row", {}, ui.input(c, "find", c.v, "find", { placeholder: "Find a document", style: "max-width: 320px",
        onkeydown: (e) => e.key === "Enter" && c.set() }), ui.button("search", "Find", () => c.set())),
      shown.length ? ui.table(["Document", "Owner", "Shared with", "Link", ""], shown.map((d) => [h("b", d.title), owner(d).name,
        `${d.people.length - 1} people`, links.find(([key]) => key === d.link)[1], ui.button(`doc:${d.id}`, "Manage access",
          () => c.go(d.id))]))
        : ui.note("No document is called like that.")];
    }
    const f = (c.v.form ??= { email: "", role: roles[0], note: false });
    const invite = () => {
      if (!/^\S+@\S+\.\w+$/.test(f.email.trim())) return c.set(() => (c.v.error = "Please give an e-mail address."));
      if (doc.people.some((p) => p.email === f.email.trim())) return c.set(() => (c.v.error = "This person has access already."));
      doc.people.push({ name: f.email.trim().split("@")[0], email: f.email.trim(), role: f.role, told: f.note });
      c.set(() => { c.v.form = null; c.v.error = null; });
      ui.toast("Invitation sent");
    };
    const remove = (p) => ui.dialog(`Remove ${p.name}?`, h("p", `${p.name} will no longer see “${doc.title}”.`), h("div.row",
      { style: "margin: 0" },
      ui.button("confirm", "Remove", () => { c.keep(() => (doc.people = doc.people.filter((x) => x !== p))); ui.close(); }, "danger"),
      ui.button("cancel", "Cancel", () => ui.close())));
    const hand = (p) => ui.dialog(`Make ${p.name} the owner?`, h("p", "You stay on the document as an editor."), h("div.row",
      { style: "margin: 0" },
      ui.button("confirm", "Hand over", () => { c.keep(() => { owner(doc).role = "Editor"; p.role = "Owner"; }); ui.close(); }, "primary"),
      ui.button("cancel", "Cancel", () => ui.close())));
    const person = (p, i) => h("div", {}, ui.drawing("person", 40 * i, "small"), h("div.grow", {}, h("b", p.name), h("br"), h("small",
      p.email)),
      p.role === "Owner" ? h("span.tag", "Owner") : [
        ui.select(c, `role:${p.email}`, p.role, roles, (v) => (p.role = v)),
        ui.button(`owner:${p.email}`, "Make owner", () => hand(p), "quiet"), ui.button(`remove:${p.email}`, "Remove", () => remove(p),
          "quiet")]);
    return [ui.button("docs", "‹ All documents", () => c.go()), h("h2", { style: "margin-top: 14px" }, doc.title),
      h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 310px" },
        h("div", {}, h("p.muted", `${doc.people.length} people have access`), h("div.list", {}, doc.people.map(person))),
        h("div.stack", {},
          h("div.panel", {}, h("h3", "Invite somebody"), c.v.error ? ui.note(c.v.error, "error") : null,
            ui.field("E-mail", ui.input(c, "email", f, "email")), ui.field("Role", ui.select(c, "role", f.role, roles,
              (v) => (f.role = v))),
            ui.check(c, "note", f, "note", "Send a message, too"),
            h("div.row", { style: "margin: 8px 0 0" }, ui.button("invite", "Invite", invite, "primary"))),
          h("div.panel", {}, h("h3", "Link"), links.map(([key, label]) => ui.radio(c, "link", doc, "link", key, label)))))];
  },
});
