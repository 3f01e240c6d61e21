// Photos in albums: thumbnails, one photo large with the next and the previous, favourites, captions.
Site.module("gallery", {
  view(c) {
    c.v.album ??= "all";
    const name = (id) => c.s.albums.find((a) => a.id === id).name;
    const shown = c.s.photos.filter((p) => c.v.album === "all" || (c.v.album === "loved" ? p.loved : p.album === c.v.album));
    const love = (p) => ui.button(`love:${p.id}`, p.loved ? "♥" : "♡", () => c.set(() => (p.loved = !p.loved)), p.loved ? "primary" : "");
    const large = (p) => {
      const row = shown.includes(p) ? shown : c.s.photos, at = row.indexOf(p);
      const step = (by) => { c.keep(() => (c.v.caption = null)); c.go("photo", row[(at + by + row.length) % row.length].id); };
      const facts = h("div.stack", {}, h("h2", p.title), h("p", { k: "caption", style: "min-height: 3em" }, p.caption),
        h("p.muted", { k: "taken" }, `Taken on ${p.day} at ${p.place} by ${p.by}`),
        h("div.row", {}, love(p), h("span.muted", p.loved ? "In your favourites" : "Not in your favourites")),
        ui.field("Album", ui.select(c, "move", p.album, c.s.albums.map((a) => [a.id, a.name]), (v) => (p.album = v))),
        c.v.caption === p.id
          ? [ui.field("Caption", ui.area(c, "text", c.v, "text", { rows: 2 })), h("div.row", {},
              ui.button("save", "Save", () => c.set(() => { p.caption = c.v.text.trim(); c.v.caption = null; }), "primary"),
              ui.button("cancel", "Cancel", () => c.set(() => (c.v.caption = null))))]
          : h("div.row", {}, ui.button("edit", "Edit caption", () => c.set(() => { c.v.caption = p.id; c.v.text = p.caption; }))));
      return [h("div.bar", {}, ui.button("close", "‹ All photos", () => c.go()), h("span.muted", `${at + 1} of ${row.length}`),
        h("div.row", { style: "margin: 0" }, ui.button("previous", "‹ Previous", () => step(-1)), ui.button("next", "Next ›",
          () => step(1)))),
      h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 320px" },
        h("div", { style: "display: grid" }, ui.drawing(p.motif, p.hue, "wide")), h("div.panel", {}, facts))];
    };
    const open = c.path[0] === "photo" && c.s.photos.find((p) => p.id === c.path[1]);
    if (open) return large(open);
    const add = () => {
      const text = (c.v.fresh ?? "").trim();
      if (text) c.set(() => { c.s.albums.push({ id: `b${c.s.albums.length}`, name: text }); c.v.fresh = ""; });
    };
    const pairs = [["all", "All photos"], ...c.s.albums.map((a) => [a.id, a.name]), ["loved", "♥ Favourites"]];
    return [
      h("div.row", {}, ui.input(c, "album", c.v, "fresh", { placeholder: "Name of a new album", style: "max-width: 280px" }),
        ui.button("create", "Create album", add)),
      ui.tabs(c, "show", c.v.album, pairs, (v) => c.set(() => (c.v.album = v))),
      shown.length ? h("div", { style: "display: grid; grid-template-columns: repeat(auto-fill, minmax(168px, 1fr)); gap: 12px" },
        shown.map((p) => h("div.panel", { style: "padding: 8px" },
          h("div", { k: `photo:${p.id}`, style: "cursor: pointer", onclick: () => c.go("photo", p.id) }, ui.drawing(p.motif, p.hue)),
          h("div.row", { style: "margin: 0; flex-wrap: nowrap" }, h("small.grow", { style: "line-height: 1.25" }, p.title), love(p)))))
        : ui.note("No photos here yet."),
    ];
  },
});
