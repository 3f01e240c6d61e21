// Account settings in four parts, each with its own Save: person, picture, privacy, notifications.
Site.module("profile", {
  view(c) {
    const parts = [["person", "Personal data"], ["picture", "Picture"], ["privacy", "Privacy"], ["notices", "Notifications"]];
    const part = c.path[0] || "person";
    // what one changes is a draft until it is saved; going elsewhere drops it
    if (c.v.part !== part || !c.v.draft) { c.v.part = part; c.v.draft = structuredClone(c.s[part]); }
    const d = c.v.draft;
    const changed = JSON.stringify(d) !== JSON.stringify(c.s[part]);
    const to = (next) => { c.v.draft = null; c.go(next); };
    const save = () => {
      if (part === "person" && (!d.name.trim() || !/^[^@\s]+@[^@\s]+\.[a-z]{2,}$/i.test(d.email)))
        return c.set(() => (c.v.error = "A name and a valid e-mail address are needed."));
      c.set(() => {
        c.v.error = null;
        c.s[part] = Object.fromEntries(Object.entries(d).map(([key, x]) => [key, typeof x === "string" ? x.trim() : x]));
        c.v.draft = null;
      });
      ui.toast("Saved");
    };
    const avatar = (id, size) => {
      const a = c.content.avatars.find((x) => x.id === id);
      return h("span", { style: `width: ${size}px; display: block` }, ui.drawing(a.drawing, a.hue, "small"));
    };
    const person = () => [
      ui.field("Full name", ui.input(c, "name", d, "name")), ui.field("E-mail", ui.input(c, "email", d, "email")),
      ui.field("Phone", ui.input(c, "phone", d, "phone")),
      ui.field("Preferred place", ui.select(c, "place", d.place, c.content.places, (v) => (d.place = v))),
      ui.field("Language", ui.select(c, "language", d.language, c.content.languages, (v) => (d.language = v))),
      ui.field("About me", ui.area(c, "bio", d, "bio", { rows: 3 })),
    ];
    const picture = () => [h("p.muted", "This picture is shown next to what you write."),
      h("div.grid", { style: "grid-template-columns: repeat(4, minmax(90px, 130px)); margin-bottom: 16px" }, c.content.avatars.map((a) =>
        h("button" + (d.avatar === a.id ? ".on" : ""), { k: `avatar:${a.id}`, type: "button",
          onclick: () => c.set(() => (d.avatar = a.id)) },
          h("span", { style: "display: grid; justify-items: center; gap: 4px" }, ui.drawing(a.drawing, a.hue, "small"), h("small", { style:
            "color: inherit" }, a.name))))), ui.check(c, "frame", d, "frame", "Draw a frame around it")];
    const privacy = () => [
      ui.table(["Who can see…", "Everyone", "Members", "Only me"], c.content.fields.map(([key, label]) => [h("b", label),
        ...["everyone", "members", "me"].map((who) => h("label.check", { k: `${key}:${who}`, style: "padding: 2px 12px" },
          h("input", { type: "radio", name: key, checked: d[key] === who, onchange: () => c.set(() => (d[key] = who)) })))])),
      ui.check(c, "searchable", d, "searchable", "My profile can be found by search engines"),
      ui.check(c, "online", d, "online", "Show when I am online"),
    ];
    const notices = () => [
      ui.table(["Tell me about…", "E-mail", "Text message", "Push"], c.content.topics.map(([key, label]) => [h("b", label),
        ...["email", "text", "push"].map((way) => h("label.check", { k: `${key}:${way}`, style: "padding: 2px 12px" },
          h("input", { type: "checkbox", checked: d[`${key}-${way}`],
            onchange: (e) => c.set(() => (d[`${key}-${way}`] = e.target.checked)) })))])),
      ui.field("Summary by e-mail", ui.select(c, "summary", d.summary, ["Never", "Every day", "Every week", "Every month"],
        (v) => (d.summary = v))),
      ui.button("defaults", "Back to the defaults", () => ui.dialog("Back to the defaults?",
        h("p", "All your notification settings are replaced and saved at once."),
        h("div.row", {}, ui.button("yes", "Yes, replace them", () => { c.keep(() => { c.s.notices = structuredClone(c.content.defaults);
          c.v.draft = null; }); ui.close(); }, "primary"), ui.button("no", "No", () => ui.close()))), "quiet"),
    ];
    return h("div.split", { style: "grid-template-columns: 230px minmax(0, 1fr)" },
      h("div.stack", {}, h("div.row", { style: "margin: 0" }, avatar(c.s.picture.avatar, 46), h("div", {}, h("b", c.s.person.name), h("br"),
        h("small", `Member since ${c.content.since}`))),
      h("div.list", {}, parts.map(([key, label]) => h("button" + (key === part ? ".here" : ""), { k: `part:${key}`, type: "button",
        onclick: () => to(key) }, label)))),
      h("div.panel", {}, h("h2", parts.find(([key]) => key === part)[1]), { person, picture, privacy, notices }[part](),
        c.v.error ? ui.note(c.v.error, "error") : null,
        h("div.row", { style: "margin-top: 14px" }, ui.button("save", "Save changes", save, "primary"),
          ui.button("discard", "Discard", () => c.set(() => { c.v.draft = null; c.v.error = null; })),
          changed ? h("small", "Not saved yet") : null)));
  },
});
