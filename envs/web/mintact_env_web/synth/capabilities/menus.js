// A bar of menus, each with menus of its own that lead to pages; what one keeps of the pages.
Site.module("menus", {
  view(c) {
    const { pages, kinds, folders } = c.content;
    const page = (id) => pages.find((p) => p.id === id);
    const groups = (kind) => [...new Set(pages.filter((p) => p.kind === kind).map((p) => p.group))];
    const flip = (list, id) => (list.includes(id) ? list.filter((x) => x !== id) : [...list, id]);
    // menus open under the pointer; a click on their heads opens them too, for fingers
    const opens = (e) => e.currentTarget.parentElement.classList.toggle("open");
    const menu = (k, label, children, arrow) => h("div.menu", {}, h("button", { k, type: "button", onclick: opens }, label,
      h("span.muted", {}, arrow)), h("div.drop", {}, children));
    const leaf = (k, label, onclick) => h("div.menu", {}, h("button", { k, type: "button", onclick }, label));
    const bar = h("div.menubar", {},
      kinds.map((kind, i) => menu(`menu:${i}`, kind, groups(kind).map((group, j) => menu(`group:${i}:${j}`, group,
        pages.filter((p) => p.kind === kind && p.group === group).map((p) => leaf(`page:${p.id}`, p.name, () => c.go(p.id))), "▸")), "▾")),
      menu("menu:saved", `Saved (${c.s.saved.length})`, c.s.saved.length
        ? c.s.saved.map((id) => leaf(`saved:${id}`, page(id).name, () => c.go(id)))
        : h("p.muted", { style: "padding: 8px 14px; margin: 0" }, "Nothing saved."), "▾"));
    const folderOf = (id) => folders.find((f) => c.s.folders[f].includes(id));
    const file = (id, folder) => c.set(() => {
      for (const f of folders) c.s.folders[f] = c.s.folders[f].filter((x) => x !== id);
      if (folder) c.s.folders[folder].push(id);
    });
    const more = (p) => h("div.menubar", { style: "display: inline-flex; margin: 0" }, menu("more", "More", [
      leaf("start-page", "Make this my first page", () => c.set(() => (c.s.first = p.id))),
      menu("into", "Put into folder", folders.map((f) => leaf(`into:${f}`, f, () => file(p.id, f))), "▸"),
      folderOf(p.id) ? leaf("out", `Take out of ${folderOf(p.id)}`, () => file(p.id, null)) : null], "▾"));
    const shown = page(c.path[0] ?? c.s.first);
    const panel = h("div.panel", {}, h("p.muted", `${shown.kind} › ${shown.group}`), h("h2", { k: "title" }, shown.name),
      h("div", { style: "display: grid; grid-template-columns: 220px 1fr; gap: 18px" }, ui.picture(shown.hue, "large"), h("div", {},
        h("p", shown.blurb + "."), h("p", {}, "Price: ", h("b", { k: "price" }, c.money(shown.price))),
        h("p", {}, "Reference: ", h("b", { k: "code" }, shown.code)),
        folderOf(shown.id) ? h("p", {}, h("span.tag", "Folder: " + folderOf(shown.id))) : null,
        h("div.row", { style: "align-items: center" }, ui.button("save",
          c.s.saved.includes(shown.id) ? "Remove from saved" : "Save this page",
          () => c.set(() => (c.s.saved = flip(c.s.saved, shown.id))), "primary"), more(shown)))));
    const side = h("div.stack", {}, h("div.panel", {}, h("h3", "First page"), h("p", page(c.s.first).name)),
      folders.map((f) => h("div.panel", {}, h("h3", f), c.s.folders[f].length
        ? c.s.folders[f].map((id) => h("p", { style: "margin: 0" }, page(id).name)) : h("p.muted", "Empty"))));
    return [bar, h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 250px" }, panel, side)];
  },
});
