// A player without sound: what plays, from where, how fast and loud, and what comes next.
Site.module("player", {
  view(c) {
    const { tracks } = c.content, s = c.s;
    const track = (id) => tracks.find((t) => t.id === id), now = track(s.current);
    const time = (sec) => `${Math.floor(sec / 60)}:${String(sec % 60).padStart(2, "0")}`;
    const play = (id) => c.set(() => { s.current = id; s.at = 0; s.playing = true; });
    const seek = (at) => c.set(() => (s.at = Math.max(0, Math.min(now.length, at))));
    const next = (by) => {
      if (by > 0 && s.queue.length) return c.set(() => { s.current = s.queue.shift(); s.at = 0; s.playing = true; });
      play(tracks[(tracks.indexOf(now) + by + tracks.length) % tracks.length].id);
    };
    const bar = h("div", { k: "bar", title: "Click to jump",
      style: "height: 16px; border-radius: 8px; background: var(--line); cursor: pointer; overflow: hidden",
      onclick: (e) => { const box = e.currentTarget.getBoundingClientRect();
        seek(Math.round((now.length * (e.clientX - box.x)) / box.width / 10) * 10); } },
      h("div", { style: `height: 100%; width: ${(100 * s.at) / now.length}%; background: var(--accent)` }));
    const deck = h("div.panel", {}, h("div", { style: "display: grid; grid-template-columns: 150px 1fr; gap: 18px; align-items: center" },
      ui.picture(now.hue, "large"), h("div", {}, h("p.muted", s.playing ? "Now playing" : "Paused"), h("h2", { k: "title" }, now.title),
        h("p", now.artist), bar, h("div.bar", { style: "margin: 4px 0 0" }, h("b", { k: "at" }, time(s.at)), h("span.muted",
          time(now.length))))),
    h("div.row", { style: "margin-top: 14px" }, ui.button("previous", "‹ Previous", () => next(-1)), ui.button("back:30", "−30 s",
      () => seek(s.at - 30)),
      ui.button("back:10", "−10 s", () => seek(s.at - 10)), ui.button("play", s.playing ? "Pause" : "Play",
        () => c.set(() => (s.playing = !s.playing)), "primary"),
      ui.button("on:10", "+10 s", () => seek(s.at + 10)), ui.button("on:30", "+30 s", () => seek(s.at + 30)), ui.button("next", "Next ›",
        () => next(1))),
    h("div.row", { style: "margin: 0" }, h("span.muted", "Volume"), h("span.stepper", {},
      ui.button("quieter", "−", () => c.set(() => (s.volume = Math.max(0, s.volume - 10)))), h("b", { k: "volume" }, `${s.volume} %`),
      ui.button("louder", "+", () => c.set(() => (s.volume = Math.min(100, s.volume + 10))))),
    h("span.muted", { style: "margin-left: 16px" }, "Speed"), h("div", { style: "width: 190px" },
      ui.select(c, "speed", s.speed, c.content.speeds.map((v) => [v, v + "×"]), (v) => (s.speed = v))),
    h("label.check", { k: "repeat" }, h("input", { type: "checkbox", checked: s.repeat,
      onchange: () => c.set(() => (s.repeat = !s.repeat)) }),
      h("span", "Repeat"))));
    const list = h("div.list", {}, tracks.map((t, i) => h("div" + (t === now ? ".here" : ""), {}, h("span.muted", String(i + 1)),
      h("div.grow", {}, h("b", t.title), h("br"), h("small", t.artist)), h("span", { k: `length:${t.id}` }, time(t.length)),
      ui.button(`play:${t.id}`, "Play", () => play(t.id)),
      ui.button(`queue:${t.id}`, "+ Queue", () => c.set(() => s.queue.push(t.id)), "quiet"))));
    const swap = (i) => c.set(() => ([s.queue[i - 1], s.queue[i]] = [s.queue[i], s.queue[i - 1]]));
    const queue = h("div.panel", {}, h("h3", `Up next (${s.queue.length})`), s.queue.length ? null : h("p.muted", "The queue is empty."),
      s.queue.map((id, i) => h("div.row", { style: "flex-wrap: nowrap; gap: 4px" }, h("span.grow", track(id).title),
        h("button", { k: `earlier:${i}`, type: "button", title: "Earlier", disabled: !i, onclick: () => swap(i) }, "↑"),
        ui.button(`drop:${i}`, "✕", () => c.set(() => s.queue.splice(i, 1))))),
      s.queue.length ? ui.button("clear", "Clear queue", () => c.set(() => (s.queue = [])), "quiet") : null);
    return [h("div.split", { style: "grid-template-columns: minmax(0, 1fr) 300px" }, h("div.stack", {}, deck, list), queue)];
  },
});
