// Signing in and out, a forgotten password, and what only one who is signed in sees.
Site.module("login", {
  view(c) {
    const d = (c.v.draft ??= {});
    const me = c.s.user && c.s.accounts[c.s.user];
    const fresh = (...to) => { c.v.draft = {}; c.v.error = null; c.go(...to); };
    const fail = (text) => c.set(() => (c.v.error = text));
    const error = c.v.error ? ui.note(c.v.error, "error") : null;
    const secret = (k, label) => ui.field(label, ui.input(c, k, d, k, { type: c.v.shown ? "text" : "password" }));
    const weak = (word) => (word.length < 8 || !/\d/.test(word) ? "A password has at least 8 characters and a digit." : null);
    const shown = ui.check(c, "shown", c.v, "shown", "Show what I type");
    const narrow = (...inside) => h("div.panel", { style: "max-width: 480px; margin: 10px auto" }, inside);

    if (!me && c.path[0] === "forgot") {
      const account = c.s.accounts[c.v.who];
      const find = () => {
        const who = (d.user || "").trim();
        if (!c.s.accounts[who]) return fail("There is no such account.");
        c.v.error = null;
        c.set(() => (c.v.who = who));
      };
      const reset = () => {
        if ((d.answer || "").trim().toLowerCase() !== account.answer.toLowerCase()) return fail("That is not the answer we have on file.");
        const problem = weak(d.next || "") || (d.next !== d.repeat ? "The two passwords differ." : null);
        if (problem) return fail(problem);
        c.keep(() => { account.password = d.next; c.v.who = null; });
        fresh();
        ui.toast("Your password was changed. You can sign in now.");
      };
      return narrow(h("h2", "Forgot your password?"), account ? [h("p", account.question),
        ui.field("Answer", ui.input(c, "answer", d, "answer")),
        secret("next", "New password"), secret("repeat", "New password again"), shown, error,
        h("div.row", {}, ui.button("reset", "Set new password", reset, "primary"))]
        : [h("p.muted", "We ask you something that only you know."), ui.field("User name", ui.input(c, "user", d, "user")), error,
          h("div.row", {}, ui.button("find", "Continue", find, "primary"))],
      ui.button("back", "‹ Back to sign in", () => { c.v.who = null; fresh(); }, "quiet"));
    }
    if (!me) {
      const enter = () => {
        const account = c.s.accounts[(d.user || "").trim()];
        if (!account || account.password !== d.password) {
          c.keep(() => (d.password = ""));
          return fail("User name or password is wrong.");
        }
        c.keep(() => { c.s.user = d.user.trim(); c.s.stay = !!d.stay; });
        fresh();
      };
      const typed = (e) => e.key === "Enter" && enter();
      return narrow(h("h2", "Sign in"), h("p.muted", `to your ${c.site.brand} account`),
        ui.field("User name", ui.input(c, "user", d, "user", { onkeydown: typed })),
        ui.field("Password", ui.input(c, "password", d, "password", { type: c.v.shown ? "text" : "password", onkeydown: typed })),
        shown, ui.check(c, "stay", d, "stay", "Stay signed in on this computer"), error,
        h("div.row", { style: "margin-top: 10px" }, ui.button("enter", "Sign in", enter, "primary"),
          ui.button("forgot", "Forgot your password?", () => fresh("forgot"), "quiet")));
    }
    const part = c.path[0] || "overview";
    const change = () => {
      if (d.old !== me.password) return fail("The present password is not right.");
      const problem = weak(d.next || "") || (d.next !== d.repeat ? "The two passwords differ." : null) ||
        (d.next === d.old ? "The new password is the old one." : null);
      if (problem) return fail(problem);
      c.keep(() => (me.password = d.next));
      fresh();
      ui.toast("Password changed");
    };
    const parts = {
      overview: () => [h("h2", `Hello, ${me.name}`), h("div.grid", {}, [["Member number", me.number, "number"],
        ["Points", me.points, "points"], ["Last visit", me.last, "last"]].map(([label, value, k]) => h("div.panel", {}, h("small", label),
        h("p.strong", { k, style: "font-size: 1.4em; margin: 0" }, String(value)))))],
      password: () => [h("h2", "Change password"), secret("old", "Present password"), secret("next", "New password"),
        secret("repeat", "New password again"), shown, error, h("div.row", {}, ui.button("change", "Change password", change, "primary"))],
      devices: () => [h("h2", "Where you are signed in"), h("div.list", {}, h("div", {}, h("b.grow", "This computer"), h("small", "now")),
        me.devices.map((x) => h("div", {}, h("div.grow", {}, h("b", x.name), h("br"), h("small", x.where)),
          ui.button(`end:${x.id}`, "Sign out there", () => c.set(() => (me.devices = me.devices.filter((y) => y.id !== x.id)))))))],
    };
    return h("div.split", { style: "grid-template-columns: 230px minmax(0, 1fr)" }, h("div.stack", {},
      h("div.list", {}, [["overview", "Overview"], ["password", "Password"], ["devices", "Devices"]].map(([key, label]) =>
        h("button" + (key === part ? ".here" : ""), { k: `part:${key}`, type: "button", onclick: () => fresh(key) }, label))),
      ui.button("leave", "Sign out", () => { c.keep(() => { c.s.user = null; c.s.stay = false; }); fresh(); })),
    h("div.panel", {}, (parts[part] || parts.overview)()));
  },
});
