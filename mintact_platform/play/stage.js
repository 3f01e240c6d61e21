// The screenshot: pointer, crosshair in grid coordinates, gestures, picking of points.

const SVG = "http://www.w3.org/2000/svg";
const MOVED = 6, HELD = 500, DOUBLE = 260, LARGEST = 6;

export class Stage {
  constructor(root, act) {
    this.root = root; this.act = act;
    this.image = root.querySelector("#screen"); this.over = root.querySelector("#over");
    this.readout = root.querySelector("#readout");
    this.size = null; this.grid = null; this.gestures = {}; this.live = false; this.picking = null;
    this.at = null; this.down = null; this.clicks = 0;
    this.image.addEventListener("load", () => this.fit());
    new ResizeObserver(() => this.fit()).observe(root.parentElement);
    window.addEventListener("resize", () => this.fit());
    this.listen();
  }

  show(source, size, offered, live) {
    this.size = size; this.live = live && Boolean(size);
    if (offered) { this.grid = offered.grid; this.gestures = offered.gestures; this.points = offered.points; }
    this.root.classList.toggle("live", this.live);
    this.image.hidden = !source;
    if (source && this.image.getAttribute("src") !== source) this.image.src = source;
    if (!this.live) this.cancel();
    this.fit();
  }

  fit() {
    if (!this.size || this.image.hidden) return;
    const [width, height] = this.size;
    const room = Math.min((this.root.parentElement.clientWidth - 2) / width, (innerHeight * 0.74) / height);
    this.scale = room >= 1 ? Math.min(LARGEST, Math.floor(room)) : room;
    this.image.style.width = this.over.style.width = `${width * this.scale}px`;
    this.image.style.height = this.over.style.height = `${height * this.scale}px`;
    this.over.style.left = `${this.image.offsetLeft}px`;
    this.image.classList.toggle("sharp", this.scale > 1);
    this.over.setAttribute("viewBox", `0 0 ${width} ${height}`);
  }

  toGrid(pixel, extent) {
    if (!this.grid) return pixel;
    const value = (pixel * this.grid) / extent, near = Math.round(value);
    return Math.abs(value % 1) === 0.5 && near % 2 ? near - 1 : near;
  }

  toPixel(value, extent) { return this.grid ? Math.min(extent - 1, Math.trunc((value * extent) / this.grid)) : value; }

  point(event) {
    const box = this.image.getBoundingClientRect(), [width, height] = this.size;
    const inside = (value, extent) => Math.max(0, Math.min(extent - 1, Math.floor(value)));
    return [inside(((event.clientX - box.left) / box.width) * width, width),
      inside(((event.clientY - box.top) / box.height) * height, height)];
  }

  move(at) {
    this.at = at;
    this.over.querySelectorAll(".cross").forEach((line) => line.remove());
    this.readout.hidden = !at;
    if (!at) return;
    const [width, height] = this.size, [x, y] = at;
    for (const [x1, y1, x2, y2] of [[0, y + 0.5, width, y + 0.5], [x + 0.5, 0, x + 0.5, height]]) {
      const line = document.createElementNS(SVG, "line");
      line.setAttribute("class", "cross");
      Object.entries({ x1, y1, x2, y2 }).forEach(([key, value]) => line.setAttribute(key, value));
      this.over.append(line);
    }
    const gx = this.toGrid(x, width), gy = this.toGrid(y, height);
    const pixels = `${this.toPixel(gx, width)}, ${this.toPixel(gy, height)} px`;
    this.readout.textContent = this.grid ? `${gx}, ${gy}  (${pixels})` : pixels;
    const left = this.image.offsetLeft + (x + 0.5) * this.scale, top = (y + 0.5) * this.scale;
    const right = left + this.readout.offsetWidth + 14 < this.root.clientWidth;
    this.readout.style.left = `${right ? left + 8 : Math.max(2, left - this.readout.offsetWidth - 8)}px`;
    this.readout.style.top = `${top > 28 ? top - 26 : top + 8}px`;
  }

  mark(points) {
    const [width, height] = this.size, r = Math.max(width, height) / 40;
    for (const [cx, cy] of points) {
      for (const kind of ["halo", "ink"]) {
        const ring = document.createElementNS(SVG, "circle");
        Object.entries({ class: `${kind} sent`, cx, cy, r, "stroke-width": kind === "halo" ? r / 2 : r / 4 })
          .forEach(([key, value]) => ring.setAttribute(key, value));
        this.over.append(ring);
      }
    }
  }

  clear() { this.over.querySelectorAll(".sent").forEach((ring) => ring.remove()); }

  pick(label, done) {
    this.picking = done; this.root.classList.add("armed"); this.root.dataset.pick = label;
    this.root.focus({ preventScroll: false });
  }

  cancel() {
    this.picking = null; this.root.classList.remove("armed"); clearTimeout(this.timer); this.clicks = 0;
  }

  perform(kind, points) {
    if (!this.live) return;
    if (this.picking) {
      const done = this.picking;
      this.cancel(); this.mark([points[points.length - 1]]); done(points[points.length - 1]);
    } else if (this.gestures[kind]) {
      this.mark(points); this.act(this.gestures[kind], points);
    }
  }

  click(at) {
    if (this.picking || !this.gestures.double) return this.perform("click", [at]);
    this.clicks += 1;
    clearTimeout(this.timer);
    if (this.clicks === 2) { this.clicks = 0; return this.perform("double", [at]); }
    this.timer = setTimeout(() => { this.clicks = 0; this.perform("click", [at]); }, DOUBLE);
  }

  release(event) {
    const { at, button, time, x, y } = this.down;
    this.down = null;
    const to = this.point(event);
    if (button === 2) return this.perform("right", [at]);
    if (button === 1) return this.perform("middle", [at]);
    if (!this.picking && Math.hypot(event.clientX - x, event.clientY - y) > MOVED)
      return this.perform("drag", [at, to]);
    if (!this.picking && event.timeStamp - time > HELD && this.gestures.hold) return this.perform("hold", [at]);
    return this.click(at);
  }

  listen() {
    const { root } = this;
    root.addEventListener("contextmenu", (event) => event.preventDefault());
    root.addEventListener("pointermove", (event) => { if (this.size && this.points && !this.image.hidden) this.move(this.point(event)); });
    root.addEventListener("pointerleave", () => this.move(null));
    root.addEventListener("pointerdown", (event) => {
      if (!this.live) return;
      if (event.button === 1) event.preventDefault();
      root.setPointerCapture(event.pointerId);
      this.down = { at: this.point(event), button: event.button, time: event.timeStamp, x: event.clientX, y: event.clientY };
    });
    root.addEventListener("pointerup", (event) => { if (this.down && this.live) this.release(event); else this.down = null; });
    root.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!this.live || event.target !== this.root) return;
    const [width, height] = this.size, at = this.at ?? [Math.floor(width / 2), Math.floor(height / 2)];
    if (ways[event.key]) {
      const far = event.shiftKey ? Math.max(1, Math.round(Math.max(width, height) / 20)) : 1;
      const clamp = (value, extent) => Math.max(0, Math.min(extent - 1, value));
      this.move([clamp(at[0] + far * ways[event.key][0], width), clamp(at[1] + far * ways[event.key][1], height)]);
    } else if (event.key === "Enter") this.perform(event.shiftKey ? "right" : "click", [at]);
    else return;
    event.preventDefault();
  }
}
