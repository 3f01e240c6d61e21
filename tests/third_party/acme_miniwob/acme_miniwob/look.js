// The visible elements that a selector names: where they are, in which scrolling box, and what they
// show. Nothing is changed.
(selector) => [...document.querySelectorAll(selector)].flatMap((node) => {
  const boxes = node.getClientRects();
  if (!boxes.length || node.closest("#reward-display, #sync-task-cover, #click-canvas")) return [];
  const style = getComputedStyle(node);
  if (style.visibility === "hidden" || style.opacity === "0") return [];
  let holder = null;
  for (let parent = node.parentElement; parent; parent = parent.parentElement) {
    const clips = /(auto|scroll)/.test(getComputedStyle(parent).overflowY) && parent.scrollHeight > parent.clientHeight;
    if (!clips || parent === document.body || parent === document.documentElement) continue;
    const { x, y, width, height } = parent.getBoundingClientRect();
    holder = [x, y, width, height];
    break;
  }
  const { x, y, width, height } = boxes[0];
  const marks = Object.fromEntries([...node.attributes].map((a) => [a.name, a.value]));
  return [{
    box: [x, y, width, height], holder, tag: node.localName, marks,
    text: (node.innerText ?? node.textContent ?? "").trim(), value: String(node.value ?? ""),
    checked: Boolean(node.checked), colour: style.backgroundColor, above: node.scrollTop,
    below: node.scrollHeight - node.clientHeight - node.scrollTop,
  }];
})
