// The clipboard of one browser is shared by all its contexts; an episode has one of its own.
// What is copied is kept here and read by the hands, which paste it.
const KEY = Symbol.for("mintact");
const held = { text: null };
const LONG = 100000;
const keep = (text) => { held.text = String(text).slice(0, LONG); };

function selected() {
  const field = document.activeElement;
  if (field && typeof field.selectionStart === "number")
    return field.value.slice(field.selectionStart, field.selectionEnd);
  return String(getSelection());
}
for (const kind of ["copy", "cut"])
  addEventListener(kind, (event) => {
    const text = event.defaultPrevented ? event.clipboardData?.getData("text/plain") : selected();
    if (text) keep(text);
  });
if (navigator.clipboard) {
  navigator.clipboard.writeText = async (text) => keep(text);
  navigator.clipboard.write = async (items) => {
    for (const item of items)
      if (item.types.includes("text/plain")) keep(await (await item.getType("text/plain")).text());
  };
}
window[KEY].takeCopied = () => { const text = held.text; held.text = null; return text; };
