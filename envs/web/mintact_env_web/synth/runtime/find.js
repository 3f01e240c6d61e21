// Where the element with this data-k is, and in which scrolling box; null when it is not there.
key => {
  const node = [...document.querySelectorAll('[data-k]')].find(n => n.dataset.k === key);
  if (!node) return null;
  let box = node.getBoundingClientRect(), holder = null;
  for (let p = node.parentElement; p && p !== document.body && p !== document.documentElement; p = p.parentElement) {
    const clips = /(auto|scroll)/.test(getComputedStyle(p).overflowY) && p.scrollHeight > p.clientHeight;
    if (clips) { const r = p.getBoundingClientRect(); holder = {x: r.x, y: r.y, width: r.width, height: r.height}; break; }
  }
  return {x: box.x, y: box.y, width: box.width, height: box.height, text: node.innerText ?? node.value ?? '',
          holder, wide: innerWidth, high: innerHeight};
}
