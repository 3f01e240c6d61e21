// Messages in folders: read, star, archive, delete, reply, write.
Site.module("inbox", {
  badge: (c) => c.s.mails.filter((m) => m.folder === "inbox" && !m.read).length,
  view(c) {
    c.v.folder ??= "inbox";
    const mail = (id) => c.s.mails.find((m) => m.id === id);
    const write = (to, subject) => { c.v.draft = { to, subject, text: "" }; c.go("write"); };
    const send = () => {
      const d = c.v.draft;
      if (!d.to || !d.subject.trim() || !d.text.trim()) return c.set(() => (c.v.error = "A message needs a recipient, a subject and a text."));
      c.s.sent.push({ to: d.to, subject: d.subject.trim(), text: d.text.trim() });
      c.v.error = null; c.v.folder = "inbox"; c.set(); c.go(); ui.toast("Message sent");
    };
    const side = h("div.list", {}, [["inbox", "Inbox"], ["archive", "Archive"], ["trash", "Trash"]].map(([key, label]) =>
      h("button" + (c.v.folder === key && !c.path.length ? ".here" : ""), { k: `folder:${key}`, type: "button",
        onclick: () => { c.keep(() => (c.v.folder = key)); c.go(); } }, h("span.grow", label),
        h("small", String(c.s.mails.filter((m) => m.folder === key).length)))));
    const left = h("div.stack", {}, ui.button("write", "Write", () => write(null, ""), "primary"), side);
    const list = () => {
      const shown = c.s.mails.filter((m) => m.folder === c.v.folder);
      return shown.length ? h("div.list", {}, shown.map((m) => h("div", {},
        ui.button(`star:${m.id}`, m.starred ? "★" : "☆", () => c.set(() => (m.starred = !m.starred)), "quiet"),
        h("button.quiet.grow", { k: `mail:${m.id}`, type: "button", style: "text-align: left; text-decoration: none; color: var(--ink)",
          onclick: () => { c.keep(() => (m.read = true)); c.go("mail", m.id); } },
          h(m.read ? "span" : "b", {}, m.from), " — ", m.subject),
        h("small", m.day)))) : ui.note("No messages here.");
    };
    const reading = (m) => h("div.panel", {}, h("h2", m.subject), h("p.muted", `From ${m.from}, ${m.day}`), h("p", { k: "text" }, m.text),
      h("div.row", {}, ui.button("reply", "Reply", () => write(m.from, "Re: " + m.subject), "primary"),
        m.folder !== "archive" ? ui.button("archive", "Archive", () => { c.keep(() => (m.folder = "archive")); c.go(); }) : null,
        m.folder !== "trash" ? ui.button("delete", "Delete", () => { c.keep(() => (m.folder = "trash")); c.go(); }) : null,
        ui.button("unread", "Mark as unread", () => { c.keep(() => (m.read = false)); c.go(); }, "quiet")));
    const writing = () => h("div.panel", {}, h("h2", "New message"), c.v.error ? ui.note(c.v.error, "error") : null,
      ui.field("To", ui.select(c, "to", c.v.draft.to, c.content.people, (v) => (c.v.draft.to = v))),
      ui.field("Subject", ui.input(c, "subject", c.v.draft, "subject")), ui.field("Message", ui.area(c, "body", c.v.draft, "text")),
      h("div.row", {}, ui.button("send", "Send", send, "primary"), ui.button("discard", "Discard", () => c.go())));
    const open = c.path[0] === "mail" && mail(c.path[1]);
    return h("div.split", {}, left, open ? reading(open) : c.path[0] === "write" && c.v.draft ? writing() : list());
  },
});
