// Settings under four tabs; nothing counts before it is saved.
Site.module("preferences", {
  view(c) {
    const { themes, sizes, languages, formats, zones, events, channels, seen, hours, defaults } = c.content;
    c.v.tab ??= "look";
    const d = (c.v.draft ??= structuredClone(c.s.saved));
    const changed = JSON.stringify(d) !== JSON.stringify(c.s.saved);
    const pick = (label, k, options) => ui.field(label, ui.select(c, k, d[k], options, (v) => (d[k] = v)));
    const parts = {
      look: () => [h("h3", "Theme"), h("div.row", {}, themes.map((t, i) => h("button" + (d.theme === t ? ".primary" : ""),
        { k: `theme:${t}`,
        type: "button", style: "width: 150px; padding: 10px", onclick: () => c.set(() => (d.theme = t)) },
        h("span", { style: `display: block; height: 42px; border: 1px solid var(--line); margin-bottom: 6px; background: ${
          ["#ffffff", "#22262b", "#f4ead5", "#dfeaf2"][i]}` }), t + (d.theme === t ? " ✓" : "")))),
      h("h3", { style: "margin-top: 18px" }, "Text size"), sizes.map((v) => ui.radio(c, "size", d, "size", v, v)),
      h("div", { style: "margin-top: 12px" }, ui.check(c, "motion", d, "motion", "Show animations"),
        ui.check(c, "images", d, "images", "Load pictures on slow connections"))],
      region: () => [pick("Language", "language", languages), pick("Dates are written", "format", formats), pick("Time zone", "zone",
        zones),
        ui.check(c, "monday", d, "monday", "Weeks begin on Monday")],
      notices: () => [ui.table(["Tell me about", ...channels], events.map((e) => [e, ...channels.map((ch) => h("input", { type: "checkbox",
        k: `notice:${e}:${ch}`, checked: d.notices[e].includes(ch), style: "width: 18px; height: 18px; accent-color: var(--accent)",
          onchange: () => c.set(() => {
          const on = d.notices[e].includes(ch) ? d.notices[e].filter((x) => x !== ch) : [...d.notices[e], ch];
          d.notices[e] = channels.filter((x) => on.includes(x));
        }) }))])),
      ui.check(c, "quiet", d, "quiet", "Quiet hours: nothing is sent in this time"),
      d.quiet ? h("div.row", {}, "from", ui.select(c, "from", d.from, hours, (v) => (d.from = v)), "to",
        ui.select(c, "to", d.to, hours, (v) => (d.to = v))) : null],
      privacy: () => [h("h3", "Who sees my profile"), seen.map((v) => ui.radio(c, "seen", d, "seen", v, v)),
        h("h3", { style: "margin-top: 16px" }, "Data"), ui.check(c, "share", d, "share", "Share usage data with partners"),
        ui.check(c, "search", d, "search", "Search engines may show my profile"),
        ui.check(c, "twostep", d, "twostep", "Ask for a code at each sign-in")],
    };
    const keys = { look: ["theme", "size", "motion", "images"], region: ["language", "format", "zone", "monday"],
      notices: ["notices", "quiet", "from", "to"], privacy: ["seen", "share", "search", "twostep"] };
    const reset = () => c.set(() => keys[c.v.tab].forEach((key) => (d[key] = structuredClone(defaults[key]))));
    const tabs = [["look", "Appearance"], ["region", "Language & region"], ["notices", "Notifications"], ["privacy", "Privacy"]];
    return [ui.tabs(c, "tab", c.v.tab, tabs, (v) => c.set(() => (c.v.tab = v))),
      h("div.panel", {}, parts[c.v.tab](), h("div.row", { style: "margin: 16px 0 0" },
        ui.button("defaults", "Defaults for this tab", reset, "quiet"))),
      h("div.bar", { style: "margin-top: 14px" }, h("span.muted",
        changed ? "You have changes that are not saved." : "All changes are saved."),
        h("div.row", { style: "margin: 0" }, h("button", { k: "undo", type: "button", disabled: !changed,
          onclick: () => c.set(() => (c.v.draft = null)) }, "Discard"),
        h("button.primary", { k: "save", type: "button", disabled: !changed, onclick: () => {
          c.set(() => { c.s.saved = structuredClone(d); });
          ui.toast("Settings saved");
        } }, "Save settings")))];
  },
});
