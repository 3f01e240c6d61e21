// A form for a new account, sent only when every field is right; forms that were refused; accounts.
Site.module("signup", {
  view(c) {
    const f = c.s.draft;
    const empty = () => ({ name: "", email: "", password: "", plan: null, news: false, terms: false });
    const problems = (form) => {
      const found = {};
      if (!form.name.trim()) found.name = "Please give your name.";
      if (!/^[^@\s]+@[^@\s]+\.[a-z]{2,}$/i.test(form.email)) found.email = "This is not an e-mail address.";
      if (form.password.length < 8) found.password = "At least 8 characters.";
      if (!form.plan) found.plan = "Choose a plan.";
      if (!form.terms) found.terms = "You must accept the terms.";
      return found;
    };
    const send = () => c.set(() => {
      c.v.problems = problems(f);
      if (Object.keys(c.v.problems).length) return;
      c.s.accounts.push({ ...f });
      c.s.refused = c.s.refused.filter((r) => r.id !== c.v.correcting);
      c.s.draft = empty();
      c.v.correcting = null;
      c.go("done");
    });
    const correct = ({ id, ...form }) => c.set(() => {
      c.s.draft = { ...form };
      c.v.correcting = id;
      c.v.problems = problems(form);
    });
    const error = (key) => (c.v.problems && c.v.problems[key] ? ui.note(c.v.problems[key], "error") : null);
    if (c.path[0] === "done")
      return [ui.note(`Welcome, ${c.s.accounts.at(-1).name}! Your account is ready.`),
        h("div.row", {}, ui.button("again", "Create another account", () => c.go()),
          ui.button("accounts", "All accounts", () => c.go("accounts")))];
    if (c.path[0] === "accounts") {
      const chosen = c.s.accounts[c.v.change];
      return [
        h("div.bar", {}, h("h2", `Accounts (${c.s.accounts.length})`), ui.button("form", "New account", () => c.go(), "primary")),
        ui.table(["Name", "E-mail", "Plan", "News", ""], c.s.accounts.map((a, i) => [
          h("b", a.name), a.email, h("span.tag", { k: `plan-of:${i}` }, a.plan), a.news ? "Yes" : "No",
          ui.button(`change:${i}`, "Change plan", () => c.set(() => { c.v.change = i; c.v.plan = a.plan; }))])),
        chosen ? h("div.panel", {}, h("h3", `Plan of ${chosen.name}`),
          ui.field("New plan", ui.select(c, "new-plan", c.v.plan, c.content.plans, (v) => (c.v.plan = v))),
          h("div.row", {}, ui.button("save-plan", "Save", () => c.set(() => { chosen.plan = c.v.plan; c.v.change = null; }), "primary"),
            ui.button("keep-plan", "Cancel", () => c.set(() => (c.v.change = null))))) : null,
      ];
    }
    return h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 320px" },
      h("div.panel", {}, h("h2", c.v.correcting ? "Correct the form" : "New account"),
        ui.field("Full name", ui.input(c, "name", f, "name")), error("name"),
        ui.field("E-mail", ui.input(c, "email", f, "email")), error("email"),
        ui.field("Password", ui.input(c, "password", f, "password", { type: "password" })), error("password"),
        ui.field("Plan", ui.select(c, "plan", f.plan, c.content.plans, (v) => (f.plan = v))), error("plan"),
        ui.check(c, "news", f, "news", "Send me news once a month"),
        ui.check(c, "terms", f, "terms", "I accept the terms"), error("terms"),
        h("div.row", {}, ui.button("send", c.word("signup", "Create account"), send, "primary"))),
      h("div.stack", {},
        h("div.panel", {}, h("h3", "Already with us"), h("p.muted", `${c.s.accounts.length} accounts`),
          ui.button("accounts", "Manage accounts", () => c.go("accounts"))),
        h("div.panel", {}, h("h3", "Refused forms"), c.s.refused.length ? null : h("p.muted", "None."),
          c.s.refused.map((r) => h("div", { style: "margin-bottom: 12px" }, h("b", r.name), h("br"),
            h("small", Object.values(problems(r)).join(" ")), h("div.row", { style: "margin: 6px 0 0" },
              ui.button(`correct:${r.id}`, "Correct", () => correct(r)),
              ui.button(`discard:${r.id}`, "Discard", () => c.set(() => (c.s.refused = c.s.refused.filter((x) => x !== r))), "quiet")))))));
  },
});
