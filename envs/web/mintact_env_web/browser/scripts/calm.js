// Nothing moves by itself: animations jump to their end, the caret does not blink. A millisecond is
// left, so that the events which pages wait for still come. Transitions are ended by the pulse: a
// rule for them would give one to every element, and every change of a style a frame of its own.
const rules = `
*, *::before, *::after {
  animation-duration: 0.001s !important; animation-delay: 0s !important; animation-iteration-count: 1 !important;
  scroll-behavior: auto !important; caret-animation: manual !important;
}
::view-transition-group(*), ::view-transition-old(*), ::view-transition-new(*) {
  animation-duration: 0.001s !important; animation-delay: 0s !important;
}`;
const adopt = (root) => {
  try {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(rules);
    root.adoptedStyleSheets.push(sheet);
  } catch { /* a document that takes no sheet has nothing that moves */ }
};
adopt(document);
window[Symbol.for("mintact")].onShadow(adopt);
