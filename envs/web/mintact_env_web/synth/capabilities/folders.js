// A tree of folders beside what is in the open one: new, rename, move (also by dragging), delete.
Site.module("folders", {
  view(c) {
    c.v.folder ??= "root";
    c.v.open ??= ["root"];
    const one = (id) => c.s.nodes.find((n) => n.id === id);
    const inside = (id) => c.s.nodes.filter((n) => n.parent === id).sort((a, b) =>
      (a.size === null) !== (b.size === null) ? (a.size === null ? -1 : 1) : a.name < b.name ? -1 : 1);
    const chain = (id) => { const found = []; for (let n = one(id); n; n = one(n.parent)) found.unshift(n); return found; };
    const under = (n, id) => chain(n.id).some((x) => x.id === id);
    if (!one(c.v.folder)) c.v.folder = "root";
    const here = c.v.folder;
    const enter = (id) => c.set(() => {
      c.v.folder = id;
      c.v.open = [...new Set([...c.v.open, ...chain(id).map((n) => n.id)])];
      c.v.renaming = c.v.making = null;
    });
    const taken = (parent, name, but) => inside(parent).some((n) => n !== but && n.name.toLowerCase() === name.toLowerCase());
    const size = (n) => (n.size === null ? inside(n.id).reduce((sum, x) => sum + size(x), 0) : n.size);
    const put = (n, id) => {
      if (under(one(id), n.id) || taken(id, n.name, n)) return ui.toast("That does not go there.");
      c.set(() => (n.parent = id));
      ui.toast(`${n.name} moved to ${one(id).name}`);
    };
    const make = () => {
      const name = (c.v.name || "").trim();
      if (!name || taken(here, name)) return ui.toast(name ? "There is one of this name already." : "A folder needs a name.");
      c.set(() => { c.s.nodes.push({ id: `n${c.s.next++}`, parent: here, name, size: null }); c.v.making = null; });
    };
    const rename = (n) => {
      const name = (c.v.name || "").trim();
      if (!name || taken(n.parent, name, n)) return ui.toast(name ? "There is one of this name already." : "It needs a name.");
      c.set(() => { n.name = name; c.v.renaming = null; });
    };
    const remove = (n) => ui.dialog(`Delete ${n.name}?`, h("p", n.size === null ? "And everything in it." : `${n.size} KB`),
      h("div.row", {}, ui.button("yes", "Delete", () => {
        c.keep(() => (c.s.nodes = c.s.nodes.filter((x) => !under(x, n.id))));
        ui.close();
      }, "danger"), ui.button("no", "Keep", () => ui.close())));
    const folders = (id, depth) => [[one(id), depth],
      ...inside(id).filter((n) => n.size === null).flatMap((n) => folders(n.id, depth + 1))];
    const move = (n) => ui.dialog(`Move ${n.name} to…`, h("div.list", { style: "max-height: 320px; overflow: auto; margin-bottom: 12px" },
      folders("root", 0).filter(([f]) => !under(f, n.id)).map(([f, depth]) => h("button", { k: `to:${f.id}`, type: "button",
        style: `padding-left: ${14 + 20 * depth}px`, disabled: f.id === n.parent, onclick: () => { ui.close(); put(n, f.id); } }, f.name))),
    ui.button("no", "Cancel", () => ui.close()));
    const tree = (id, depth) => {
      const n = one(id), wide = c.v.open.includes(id), subs = inside(id).filter((x) => x.size === null);
      const toggle = () => c.set(() => (c.v.open = wide ? c.v.open.filter((x) => x !== id) : [...c.v.open, id]));
      return [h("div" + (id === here ? ".here" : ""), { "data-drop": id, style: `padding: 3px 8px 3px ${6 + 18 * depth}px; gap: 4px` },
        h("button.quiet", { k: `toggle:${id}`, type: "button", style: "padding: 0; width: 1.3em; text-decoration: none", onclick: toggle },
          subs.length ? (wide ? "▾" : "▸") : ""),
        h("button.quiet.grow", { k: `tree:${id}`, type: "button", onclick: () => enter(id),
          style: "padding: 2px 4px; text-align: left; text-decoration: none; color: var(--ink)" }, n.name)),
      wide ? subs.map((x) => tree(x.id, depth + 1)) : null];
    };
    const row = (n) => {
      if (c.v.renaming === n.id) return h("div", {},
        ui.input(c, "new-name", c.v, "name", { onkeydown: (e) => e.key === "Enter" && rename(n) }),
        ui.button("rename-now", "Rename", () => rename(n), "primary"),
        ui.button("no-rename", "Cancel", () => c.set(() => (c.v.renaming = null))));
      const folder = n.size === null;
      const name = folder
        ? h("button.quiet.grow", { k: `enter:${n.id}`, type: "button", onclick: () => enter(n.id),
          style: "padding: 0; text-align: left; text-decoration: none; color: var(--ink)" }, h("b", "▪ " + n.name))
        : h("span.grow", n.name);
      const line = h("div", { k: `row:${n.id}`, "data-drop": folder ? n.id : null, style: "padding: 6px 14px" }, name,
        h("small", { k: `size:${n.id}`, style: "width: 7em; text-align: right" }, `${size(n)} KB`),
        ui.button(`rename:${n.id}`, "Rename", () => c.set(() => { c.v.renaming = n.id; c.v.making = null; c.v.name = n.name; }), "quiet"),
        ui.button(`move:${n.id}`, "Move", () => move(n), "quiet"), ui.button(`delete:${n.id}`, "Delete", () => remove(n), "quiet"));
      return ui.draggable(line, (id) => put(n, id));
    };
    return h("div.split", { style: "grid-template-columns: 270px minmax(0, 1fr)" }, h("div.list", {}, tree("root", 0)),
      h("div", {}, h("div.bar", {}, h("div.row", { style: "margin: 0; gap: 4px" }, chain(here).map((n, i) =>
        [i ? h("span.muted", "/") : null, h("button.quiet", { k: `path:${n.id}`, type: "button",
          style: "padding: 2px 4px", onclick: () => enter(n.id) }, n.name)])),
      ui.button("new", "New folder", () => c.set(() => { c.v.making = true; c.v.renaming = null; c.v.name = ""; }), "primary")),
      c.v.making ? h("div.row", { style: "flex-wrap: nowrap" }, ui.input(c, "folder-name", c.v, "name", { placeholder: "Name of the folder",
        onkeydown: (e) => e.key === "Enter" && make() }), ui.button("make", "Create", make, "primary"),
      ui.button("no-make", "Cancel", () => c.set(() => (c.v.making = null)))) : null,
      inside(here).length ? h("div.list", {}, inside(here).map(row)) : ui.note("This folder is empty."),
      h("p.muted", { style: "margin-top: 8px" }, `${inside(here).length} entries, ${size(one(here))} KB`)));
  },
});
