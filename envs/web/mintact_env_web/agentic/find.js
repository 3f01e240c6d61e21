// Where a target is: the element with this data-k, else the one visible element that goes by this
// text, label or hint; how many there are when several do, null when none does.
target => {
  const fold = text => (text ?? '').replace(/\s+/g, ' ').trim().toLowerCase();
  const seen = node => {
    const box = node.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(node).visibility !== 'hidden';
  };
  const wanted = fold(target), OPERABLE = 'a,button,input,select,textarea,summary,label,option,[role],[onclick],[tabindex]';
  const names = node => [node.getAttribute('aria-label'), node.getAttribute('placeholder'), node.getAttribute('title'),
    node.getAttribute('alt'), ...[...(node.labels ?? [])].map(label => label.innerText),
    /^(submit|button|reset)$/.test(node.type) ? node.value : null, /^(SELECT|TEXTAREA)$/.test(node.tagName) ? null : node.innerText];
  const all = [...document.querySelectorAll('body *')].filter(seen);
  let found = all.filter(node => node.dataset.k === target);
  for (const which of [OPERABLE, '*']) {
    if (found.length) break;
    found = all.filter(node => node.matches(which) && names(node).some(name => fold(name) === wanted));
    // the field itself before its label, the innermost of nested ones
    if (found.some(node => node.tagName !== 'LABEL')) found = found.filter(node => node.tagName !== 'LABEL');
    found = found.filter(node => !found.some(other => other !== node && node.contains(other)));
  }
  if (!found.length) return null;
  if (found.length > 1) return {many: found.length};
  const node = found[0], box = node.getBoundingClientRect();
  let holder = null;
  for (let p = node.parentElement; p && p !== document.body && p !== document.documentElement; p = p.parentElement) {
    const clips = /(auto|scroll)/.test(getComputedStyle(p).overflowY) && p.scrollHeight > p.clientHeight;
    if (clips) { const r = p.getBoundingClientRect(); holder = {x: r.x, y: r.y, width: r.width, height: r.height}; break; }
  }
  const options = node.tagName !== 'SELECT' ? null : [...node.options].filter(o => !o.hidden)
    .map(o => ({text: o.label || o.text, value: o.value, off: o.disabled || !!o.parentElement.disabled}));
  return {x: box.x, y: box.y, width: box.width, height: box.height, text: node.innerText ?? node.value ?? '',
          options, holder, wide: innerWidth, high: innerHeight};
}
