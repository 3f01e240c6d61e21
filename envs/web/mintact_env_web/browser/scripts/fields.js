(() => {
  const root = (host) => window[Symbol.for("mintact")]?.root(host) ?? host.shadowRoot;
  const PICKERS = ["date", "time", "datetime-local", "month", "week", "color", "range"];
  const LONG = 500000;
  const NO_TEXT = ["button", "submit", "reset", "checkbox", "radio", "file", "image", "hidden"];

  function active() {
    let element = document.activeElement;
    while (element && root(element)?.activeElement) element = root(element).activeElement;
    return element;
  }

  function at(x, y) {
    let element = document.elementFromPoint(x, y);
    while (element && root(element)) {
      const inner = root(element).elementFromPoint(x, y);
      if (!inner || inner === element) break;
      element = inner;
    }
    return element;
  }

  // a text that is too long to travel is shown by its length, which no typed text equals
  const brief = (text) => (text.length > LONG ? `${text.length} characters` : text);

  function describe(element) {
    const tag = element.tagName.toLowerCase();
    const none = { kind: "none", type: tag, multiline: false, secret: false, head: null, tail: null, text: "" };
    if (tag === "textarea" || tag === "input") {
      const type = tag === "input" ? element.type : tag;
      if (element.disabled || element.readOnly || NO_TEXT.includes(type)) return { ...none, type };
      if (PICKERS.includes(type)) return { ...none, kind: "picker", type, text: element.value };
      const start = element.selectionStart, value = element.value;
      return {
        kind: "value", type, multiline: tag === "textarea", secret: type === "password", text: brief(value),
        head: start === null ? null : brief(value.slice(0, start)),
        tail: start === null ? null : brief(value.slice(element.selectionEnd)),
      };
    }
    if (element.isContentEditable || document.designMode === "on")
      return { ...none, kind: "content", multiline: true, text: brief(element.innerText ?? "") };
    return none;
  }

  function assign(element, text) {
    // past whatever a framework put over the property, so that it notices the change
    const set = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(element), "value").set;
    set.call(element, text);
    element.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function set(element, text) {
    const before = element.value;
    const trial = element.cloneNode();
    trial.value = text;
    if (trial.value !== text && !(element.type === "color" && trial.value === text.toLowerCase())) return before;
    assign(element, text);
    return element.value === text.toLowerCase() ? text : element.value;
  }

  // whether the browser has to insert the text itself
  function paste(element, text) {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    return element.dispatchEvent(new ClipboardEvent("paste", {
      clipboardData: data, bubbles: true, cancelable: true, composed: true,
    }));
  }

  function options(element) {
    const list = element.closest("select");
    return { options: list && !list.disabled ? [...list.options].slice(0, 5000).map((o) => (o.disabled ? "" : (o.label || o.text).slice(0, 500))) : null };
  }

  function choose(element, index) {
    const list = element.closest("select");
    list.focus();
    if (list.multiple) list.options[index].selected = !list.options[index].selected;
    else list.selectedIndex = index;
    list.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    list.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function inside(frame, [x, y]) {
    const box = frame.getBoundingClientRect();
    return [x - box.left - frame.clientLeft, y - box.top - frame.clientTop];
  }

  return { active, at, describe, set, paste, options, choose, inside };
})()
