// What would open a window of the browser's own, or wait for one for ever.
window.print = () => {};
// as in any browser: a script closes only what a script opened
if (window === window.top && !window.opener) window.close = () => {};
// blocked service workers never become ready, and pages wait for them
delete Navigator.prototype.serviceWorker;

// What a page writes to its console or throws travels on the line that all pages share.
const LONG = 10000;
const short = (value) => (typeof value === "string" && value.length > LONG ? `${value.slice(0, LONG)}…` : value);
for (const name of ["log", "info", "warn", "error", "debug", "trace", "dir", "table", "group", "groupCollapsed", "assert"]) {
  const original = console[name];
  console[name] = (...args) => original.apply(console, args.map(short));
}
addEventListener("error", (event) => { if (event.message?.length > LONG) event.preventDefault(); }, true);
addEventListener("unhandledrejection", (event) => {
  if (String(event.reason?.message ?? event.reason).length > LONG) event.preventDefault();
});
