// Files one has uploaded: names, tags, links to share, a trash, and the room they take.
Site.module("uploads", {
  view(c) {
    const { files, trash } = c.s;
    const size = (mb) => `${mb} MB`;
    const used = [...files, ...trash].reduce((n, f) => n + f.size, 0);
    c.v.order ??= "name";
    const order = (f) => (c.v.order === "size" ? -f.size : c.v.order === "day" ? f.at : f.name);
    const sorted = [...files].sort((a, b) => (order(a) < order(b) ? -1 : 1));
    const file = c.path[0] === "file" ? files.find((f) => f.id === c.path[1]) : null;
    const pick = (f) => { c.v.name = f.name; c.v.tag = ""; c.v.rights = "view"; c.v.days = 7; c.keep(); c.go("file", f.id); };
    const hue = (f) => (f.name.split(".").pop().charCodeAt(0) * 47) % 360;
    const quota = h("div.panel", { style: "margin-bottom: 14px" }, h("div.bar", { style: "margin-bottom: 6px" },
      h("b", { k: "quota" }, `${size(used)} of ${size(c.content.limit)} used`),
      h("small", `${files.length} files, ${trash.length} in the trash`)),
    h("div", { style: "height: 8px; background: var(--line); border-radius: 4px" },
      h("div", { style: `height: 8px; border-radius: 4px; background: var(--accent); width: ${(100 * used) / c.content.limit}%` })));
    const tabs = ui.tabs(c, "part", c.path[0] === "trash" ? "trash" : "files", [["files", "Files"], ["trash", `Trash (${trash.length})`]],
      (v) => c.go(...(v === "trash" ? ["trash"] : [])));

    if (c.path[0] === "trash") return [quota, tabs, trash.length ? [h("div.list", {}, trash.map((f) => h("div", {}, h("span.grow", f.name),
      h("small", size(f.size)), ui.button(`restore:${f.id}`, "Put back", () => c.set(() => {
        c.s.trash = trash.filter((x) => x !== f);
        files.push(f);
      }))))),
    h("div.row", { style: "margin-top: 12px" }, ui.button("empty", "Empty the trash", () => ui.dialog("Empty the trash?",
      h("p", `${trash.length} files are gone for good.`), h("div.row", {}, ui.button("yes", "Empty it", () => {
        c.keep(() => (c.s.trash = []));
        ui.close();
      }, "danger"), ui.button("no", "Not now", () => ui.close())))))] : ui.note("The trash is empty.")];

    const discard = () => {
      c.keep(() => { c.s.files = files.filter((f) => f !== file); trash.push(file); });
      c.go();
      ui.toast(`${file.name} is in the trash`);
    };
    const rename = () => { const name = c.v.name.trim(); if (name) { c.set(() => (file.name = name)); ui.toast("Renamed"); } };
    const tag = () => {
      const word = (c.v.tag || "").trim().toLowerCase();
      if (word && !file.tags.includes(word)) c.set(() => { file.tags.push(word); c.v.tag = ""; });
    };
    const days = (n) => (n ? `${n} ${n === 1 ? "day" : "days"}` : "without end");
    const details = () => h("aside.panel", {}, h("div.row", { style: "flex-wrap: nowrap" }, ui.drawing("book", hue(file), "small"),
      h("div", {}, h("b", { style: "overflow-wrap: anywhere" }, file.name), h("br"),
        h("small", { k: "details" }, `${size(file.size)}, uploaded on ${file.day}`))),
    h("h3", "Name"), h("div.row", { style: "flex-wrap: nowrap" }, ui.input(c, "name", c.v, "name"), ui.button("rename", "Rename", rename)),
    h("h3", "Tags"), h("div.row", {}, file.tags.length ? file.tags.map((t) => h("span.tag", t, " ", h("a",
      { k: `untag:${t}`, title: "Remove", style: "cursor: pointer; padding: 0 3px",
        onclick: () => c.set(() => (file.tags = file.tags.filter((x) => x !== t))) }, "×"))) : h("small", "None yet")),
    h("div.row", { style: "flex-wrap: nowrap" }, ui.input(c, "tag", c.v, "tag", { placeholder: "New tag",
      onkeydown: (e) => e.key === "Enter" && tag() }), ui.button("add-tag", "Add", tag)),
    h("h3", "Link"), file.link ? [h("p", `Everybody with the link can ${file.link.rights} it, `,
      `${file.link.days ? "for " : ""}${days(file.link.days)}.`),
      ui.button("unshare", "Stop sharing", () => c.set(() => (file.link = null)))]
      : [h("div.row", {}, ui.select(c, "rights", c.v.rights, [["view", "Can view"], ["edit", "Can edit"]], (v) => (c.v.rights = v)),
        ui.select(c, "days", c.v.days, [1, 7, 30, 0].map((n) => [n, n ? `For ${days(n)}` : "Without end"]), (v) => (c.v.days = v))),
      ui.button("share", "Create link", () => c.set(() => (file.link = { rights: c.v.rights, days: c.v.days })), "primary")],
    h("div.row", { style: "margin-top: 18px" }, ui.button("delete", "Move to trash", discard),
      ui.button("close", "Close", () => c.go(), "quiet")));
    return [quota, tabs, h("div.split", { style: file ? "grid-template-columns: minmax(0, 1fr) 370px" : "grid-template-columns: 1fr" },
      h("div", {}, h("div.row", {}, h("span.muted", "Sorted by"),
        ui.select(c, "order", c.v.order, [["name", "Name"], ["size", "Largest first"], ["day", "Newest first"]], (v) => (c.v.order = v))),
      files.length ? h("div.list", {}, sorted.map((f) => h("button" + (f === file ? ".here" : ""), { k: `file:${f.id}`, type: "button",
        onclick: () => pick(f) }, ui.drawing("book", hue(f), "small"), h("div.grow", {}, h("b", f.name), h("br"), h("small",
        `${size(f.size)} · ${f.day}`)), f.tags.map((t) => h("span.tag", t)),
      f.link ? h("span.tag", "shared") : null))) : ui.note("No files.")),
      file ? details() : null)];
  },
});
