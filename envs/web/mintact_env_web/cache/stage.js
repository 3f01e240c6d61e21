// The world of a replayed page: the clock of the recording, and randomness that repeats.
// The clock moves only with the page's own timers and frames, so that every replay reads the same:
// a timer's callback finds exactly its delay gone by, which is what debounced code waits for.
const START = "$START";
const SEED = "$SEED";
const HEARD = "$HEARD";
const READINGS_PER_MS = 256;
const FRAME_MS = 1000 / 60;
let time = START, readings = 0;

function read() {
  readings += 1;
  if (readings % READINGS_PER_MS === 0) time += 1; // loops that wait for the clock come to an end
  return Math.floor(time);
}
function advance(to) {
  if (to > time) { time = to; readings = 0; }
}

function replace(holder, name, make) {
  const original = holder?.[name];
  if (typeof original !== "function") return;
  const copy = make(original);
  Object.defineProperty(copy, "name", { value: name });
  copy.toString = () => original.toString();
  holder[name] = copy;
}

const delayOf = (delay) => Math.max(0, Number(delay) || 0);
replace(window, "setTimeout", (original) => function (work, delay, ...rest) {
  if (typeof work !== "function") return original(work, delay, ...rest);
  const due = time + delayOf(delay);
  return original(function (...given) { advance(due); return work.apply(window, given); }, delay, ...rest);
});
replace(window, "setInterval", (original) => function (work, delay, ...rest) {
  if (typeof work !== "function") return original(work, delay, ...rest);
  let due = time;
  return original(function (...given) {
    due = Math.max(due + Math.max(1, delayOf(delay)), time);
    advance(due);
    return work.apply(window, given);
  }, delay, ...rest);
});
let frame = null;
replace(window, "requestAnimationFrame", (original) => function (work) {
  return original((stamp) => {
    if (stamp !== frame) { frame = stamp; advance(time + FRAME_MS); }
    return work(stamp);
  });
});

const RealDate = Date;
function ReplayedDate(...given) {
  if (new.target === undefined) return new RealDate(read()).toString();
  return Reflect.construct(RealDate, given.length ? given : [read()], new.target);
}
Object.defineProperty(ReplayedDate, "name", { value: "Date" });
Object.defineProperty(ReplayedDate, "length", { value: 7 });
ReplayedDate.prototype = RealDate.prototype;
ReplayedDate.prototype.constructor = ReplayedDate;
ReplayedDate.now = function now() { return read(); };
ReplayedDate.parse = RealDate.parse;
ReplayedDate.UTC = RealDate.UTC;
window.Date = ReplayedDate;
Object.defineProperty(Performance.prototype, "timeOrigin", { get: () => START, configurable: true });

const formats = Intl.DateTimeFormat.prototype;
const format = Object.getOwnPropertyDescriptor(formats, "format");
Object.defineProperty(formats, "format", {
  ...format, get() { const own = format.get.call(this); return (date) => own(date === undefined ? read() : date); },
});
replace(formats, "formatToParts", (original) => function (date) {
  return original.call(this, date === undefined ? read() : date);
});
if (window.Temporal) {
  const { Now, Instant } = Temporal;
  const zoned = (zone = Now.timeZoneId()) => Now.instant().toZonedDateTimeISO(zone);
  Now.instant = () => Instant.fromEpochMilliseconds(read());
  Now.zonedDateTimeISO = zoned;
  Now.plainDateTimeISO = (zone) => zoned(zone).toPlainDateTime();
  Now.plainDateISO = (zone) => zoned(zone).toPlainDate();
  Now.plainTimeISO = (zone) => zoned(zone).toPlainTime();
}

// mulberry32, begun by the address: frames of one page must not draw the same numbers
let state = SEED >>> 0;
for (const letter of location.href) state = Math.imul(state ^ letter.codePointAt(0), 16777619) >>> 0;
function draw() {
  state = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return (mixed ^ (mixed >>> 14)) >>> 0;
}
replace(Math, "random", () => function () { return draw() / 4294967296; });
let identifying = false; // the driver tells the sockets of all episodes apart by random numbers
replace(Crypto.prototype, "getRandomValues", (original) => function (array) {
  original.call(this, array); // refuses what it has to refuse
  if (identifying) return array;
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = draw() & 255;
  return array;
});
replace(Crypto.prototype, "randomUUID", () => function () {
  const hex = Array.from(this.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0"));
  hex[6] = "4" + hex[6][1];
  hex[8] = "89ab"[parseInt(hex[8][0], 16) & 3] + hex[8][1];
  const text = hex.join("");
  return [[0, 8], [8, 12], [12, 16], [16, 20], [20, 32]].map(([a, b]) => text.slice(a, b)).join("-");
});

// A page is at rest when it has heard what a socket will answer.
// The recording says so with a message that the page does not see.
const outstanding = (by) => window[Symbol.for("mintact")]?.outstanding(by);
const RealSocket = window.WebSocket;
function ReplayedSocket(...given) {
  if (new.target === undefined) return RealSocket(...given);
  identifying = true;
  let socket;
  try { socket = Reflect.construct(RealSocket, given, new.target); } finally { identifying = false; }
  let waiting = 1;
  const wait = (by) => { waiting += by; outstanding(by); };
  outstanding(1);
  socket.addEventListener("message", (event) => {
    if (event.data !== HEARD) return;
    event.stopImmediatePropagation();
    if (waiting) wait(-1);
  });
  for (const kind of ["close", "error"]) socket.addEventListener(kind, () => wait(-waiting));
  const send = socket.send;
  socket.send = (message) => { send.call(socket, message); wait(1); };
  return socket;
}
for (const name of ["CONNECTING", "OPEN", "CLOSING", "CLOSED"]) ReplayedSocket[name] = RealSocket[name];
Object.defineProperty(ReplayedSocket, "name", { value: "WebSocket" });
ReplayedSocket.prototype = RealSocket.prototype;
ReplayedSocket.prototype.constructor = ReplayedSocket;
window.WebSocket = ReplayedSocket;

// the context is offline, the site must not notice
Object.defineProperty(Navigator.prototype, "onLine", { get: () => true, configurable: true });
