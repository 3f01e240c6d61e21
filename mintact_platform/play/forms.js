// The action panel: a chip an action or tool, and the form of the chosen one.

export function h(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export class Forms {
  constructor(chips, form, stage, act) {
    this.chips = chips; this.form = form; this.stage = stage; this.act = act;
    this.actions = []; this.chosen = null; this.shown = ""; this.enabled = false;
    form.addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
  }

  show(actions, enabled) {
    const key = JSON.stringify(actions);
    if (key !== this.shown) {
      this.shown = key; this.actions = actions;
      const kept = actions.findIndex((action) => action.title === this.chosen?.title);
      this.draw();
      this.choose(kept, false);
    }
    this.enabled = enabled;
    this.chips.querySelectorAll("button").forEach((button) => { button.disabled = !enabled; });
    this.form.querySelectorAll("button").forEach((button) => { button.disabled = !enabled; });
  }

  find(title) { return this.actions.find((action) => action.title === title); }

  draw() {
    this.chips.replaceChildren(...this.actions.map((action, index) => {
      const key = index < 9 ? h("kbd", {}, `${index + 1} `) : null;
      const chip = h("button", { type: "button", title: action.description,
        onclick: () => this.choose(index, true) }, key, action.title);
      chip.dataset.action = action.title;
      chip.setAttribute("aria-pressed", "false");
      return chip;
    }));
  }

  choose(index, byHand) {
    this.chosen = this.actions[index] ?? null;
    [...this.chips.children].forEach((chip, k) => chip.setAttribute("aria-pressed", String(k === index)));
    this.stage.cancel();
    if (!this.chosen) return this.form.replaceChildren();
    const rows = this.chosen.fields.map((field) => this.row(field));
    const about = h("p", { className: "faint" }, this.chosen.description);
    const go = h("button", { className: "main", type: "submit", disabled: !this.enabled }, `Do: ${this.chosen.title}`);
    this.form.replaceChildren(about, ...rows, h("div", { className: "row" }, go));
    if (!byHand) return;
    const first = this.form.querySelector("textarea, input, select");
    if (!this.pickNext()) (first ?? go).focus();
  }

  row(field) {
    const id = `field-${field.name}`;
    const label = h("label", { htmlFor: id }, field.name, field.required ? "" : " (optional)");
    const told = [field.description, bounds(field)].filter(Boolean).join(" ");
    return h("div", { className: "field" }, label, this.input(field, id), told ? h("small", {}, told) : null);
  }

  input(field, id) {
    const common = { id, name: field.name, required: field.required };
    if (field.kind === "choice" || field.kind === "boolean") {
      const options = field.kind === "boolean" ? [true, false] : field.options;
      const none = field.required ? [] : [h("option", { value: "" }, "–")];
      return h("select", common, ...none, ...options.map((option) => h("option", { value: JSON.stringify(option) }, String(option))));
    }
    if (field.kind === "point") {
      const pick = h("button", { type: "button", onclick: () => this.pick(field) }, "Pick");
      const box = h("input", { ...common, placeholder: "x, y in pixels", pattern: "\\s*\\d+\\s*,\\s*\\d+\\s*" });
      return h("div", { className: "with" }, box, pick);
    }
    if (field.kind === "number" || field.kind === "integer")
      return h("input", { ...common, type: "number", step: field.kind === "integer" ? "1" : "any",
        min: field.minimum ?? "", max: field.maximum ?? "" });
    const rows = field.kind === "json" ? 3 : 1;
    const hint = { json: "JSON", keys: "ctrl+c" }[field.kind] ?? "";
    return field.kind === "keys" ? h("input", { ...common, placeholder: hint })
      : h("textarea", { ...common, rows, placeholder: hint, spellcheck: false });
  }

  pick(field) {
    this.stage.pick(field.name, ([x, y]) => {
      this.form.elements[field.name].value = `${x}, ${y}`;
      const only = this.chosen.fields.every((one) => one.kind === "point" || !one.required);
      if (!this.pickNext() && only) this.submit();
    });
  }

  pickNext() {
    const open = this.chosen.fields.find((field) => field.kind === "point" && field.required
      && !this.form.elements[field.name].value);
    if (open) this.pick(open);
    return Boolean(open);
  }

  submit() {
    if (!this.enabled || !this.chosen || !this.form.reportValidity()) return;
    const values = { ...this.chosen.arguments };
    for (const field of this.chosen.fields) {
      const text = this.form.elements[field.name].value;
      if (text === "" && !(field.required && field.kind === "string")) continue;
      try { values[field.name] = read(field.kind, text); }
      catch { return this.form.elements[field.name].focus(); }
    }
    this.act(this.chosen, values);
    this.form.reset();
  }
}

function bounds(field) {
  if (field.minimum === null && field.maximum === null) return "";
  return `${field.minimum ?? "−∞"} to ${field.maximum ?? "∞"}`;
}

function read(kind, text) {
  if (kind === "number" || kind === "integer") return Number(text);
  if (["choice", "boolean", "json"].includes(kind)) return JSON.parse(text);
  if (kind === "point") return text.split(",").map((part) => Number(part.trim()));
  if (kind === "keys") return text.trim().length === 1 ? [text.trim()] : text.trim().split(/\s*\+\s*|\s+/).filter(Boolean);
  return text;
}
