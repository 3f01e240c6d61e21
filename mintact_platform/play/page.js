// The page of `mintact play`: asks the session what to show, draws it, sends what the person does.

import { Forms, h } from "./forms.js";
import { drawEnd, drawHistory, drawMessages, drawOthers } from "./parts.js";
import { Stage } from "./stage.js";

const $ = (id) => document.getElementById(id);
const NAMES = { booting: "booting", resetting: "resetting", waiting: "your turn", acting: "acting",
  judging: "judging", ended: "ended", failed: "environment failed", connecting: "connecting", gone: "not running" };
let state = null, since = 0, queue = [];

async function call(path, body = {}) {
  try {
    const reply = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    const values = await reply.json();
    notice(reply.ok ? "" : values.error?.message ?? `HTTP ${reply.status}`);
    return reply.ok ? values : null;
  } catch { notice("no answer: is `mintact play` still running?"); return null; }
}

function notice(text) { $("notice").textContent = text; $("notice").hidden = !text; }

async function act(action, values) {
  const body = { thought: $("thought").value, name: action.name, arguments: values };
  if ($("preview").checked) {
    const made = await call("compose", body);
    if (made) { $("raw").value = made.response; $("raw").focus(); stage.clear(); }
    return;
  }
  if (await call("act", body)) { $("thought").value = ""; return; }
  stage.clear(); queue = [];
}

function gesture(title, points) {
  const action = forms.find(title), [first, last] = [points[0], points[points.length - 1]];
  const fields = action.fields.map((field) => field.name);
  if (fields.includes("coordinate2")) return act(action, { ...action.arguments, coordinate: first, coordinate2: last });
  const move = points.length > 1 ? forms.find("mouse_move") : null;
  if (move) {
    queue = [() => act(action, { ...action.arguments, coordinate: last })];
    return act(move, { ...move.arguments, coordinate: first });
  }
  return act(action, { ...action.arguments, coordinate: last });
}

const stage = new Stage($("stage"), gesture);
const forms = new Forms($("chips"), $("form"), stage, act);

function draw() {
  const { phase, task, turn, errors, observation, space } = state, live = phase === "waiting";
  document.body.dataset.phase = phase;
  document.title = `${live ? "▶ " : ""}${NAMES[phase]} · ${state.environment}`;
  $("environment").textContent = state.environment;
  $("environment").title = `${state.instance} at ${state.server}`;
  $("task").textContent = task.id.replace(`${state.environment}/`, "");
  $("phase").textContent = NAMES[phase];
  $("turn").textContent = `${Math.min(turn.done + (live || phase === "acting" ? 1 : 0), turn.limit)} / ${turn.limit}`;
  $("slips").textContent = `${errors.made} / ${errors.limit}`;
  $("reward").textContent = String(Number(state.reward.toFixed(4)));
  const last = state.turns[state.turns.length - 1];
  $("step").textContent = last && !last.error ? `${last.seconds.toFixed(last.seconds < 1 ? 3 : 1)} s` : "–";
  $("goal").textContent = task.goal || (phase === "booting" ? "…" : "no goal: the agent is told none (give one with --goal)");
  if (live) stage.clear();
  stage.show(observation.screenshot && `images/${observation.screenshot}`, observation.size, space, live);
  caption(observation, space);
  $("text-box").hidden = !observation.text;
  $("text").textContent = observation.text;
  forms.show(space?.actions ?? [], live);
  const over = ["judging", "ended", "failed"].includes(phase);
  $("act").hidden = over || !space?.actions.length;
  $("raw-box").hidden = over || !space;
  drawOthers($("also"), observation.new.slice(0, -1));
  $("raw").placeholder = space?.example ?? "";
  $("gestures").textContent = space && observation.size ? mouse(space.gestures) : "";
  drawMessages($("messages"), $("size"), state.messages);
  $("beside").hidden = !Object.keys(state.info).length;
  $("info").textContent = JSON.stringify(state.info, null, 2);
  drawHistory($("history"), $("strip"), state.turns);
  drawEnd($("ended"), state, { judge: () => call("judge"), again: () => call("begin", { again: true }), next: () => call("begin"), save });
  buttons(phase, live);
  tick();
}

function caption(observation, space) {
  const [width, height] = observation.size ?? [];
  const scale = stage.scale && stage.scale !== 1 ? `, shown × ${Number(stage.scale.toFixed(2))}` : "";
  const grid = space?.grid && space.points ? `, grid 0 to ${space.grid}` : "";
  const old = observation.new.length ? "" : "; nothing new is shown this turn, the picture is from before";
  $("caption").textContent = width ? `${width} × ${height} px${scale}${grid}${old}`
    : state.messages.length ? "This observation has no screenshot." : "";
}

function mouse(gestures) {
  const words = { click: "click", double: "double click", right: "right click", middle: "middle click", hold: "press and hold", drag: "drag" };
  const known = Object.entries(words).filter(([key]) => gestures[key]);
  return known.length ? `On the screenshot: ${known.map(([key, word]) => `${word} → ${gestures[key]}`).join(" · ")}` : "";
}

function buttons(phase, live) {
  $("give-up").disabled = !["booting", "resetting", "waiting", "acting"].includes(phase);
  $("again").disabled = $("next").disabled = phase === "booting" && !state.instance;
  $("save").disabled = phase !== "ended" || !state.turns.length || Boolean(state.saved);
  $("save").textContent = state.saved ? "Saved ✓" : "Save";
  $("save").classList.toggle("main", !$("save").disabled);
  $("send").disabled = !live;
  $("check").disabled = !state.space;
}

function tick() {
  const phase = document.body.dataset.phase, busy = ["connecting", "booting", "resetting", "acting", "judging"].includes(phase);
  $("waiting").hidden = !busy;
  $("stage").hidden = !busy && !state?.observation.screenshot;
  const spent = (state ? state.seconds : 0) + (performance.now() - since) / 1000;
  const limit = { booting: state?.boot_deadline, acting: state?.step_deadline }[phase];
  $("progress").style.width = `${limit ? Math.min(100, (100 * spent) / limit) : 100}%`;
  const what = { booting: `Booting ${state?.environment}`, resetting: "Setting up the task", acting: "Acting", judging: `Asking the judge ${state?.judge}` }[phase];
  const long = spent > 1.5 ? ` · ${spent.toFixed(0)} s${limit ? ` of ${limit} s` : ""}` : "";
  $("doing").textContent = `${what ?? "Connecting"}${long}`;
}

async function save() { await call("save"); }

async function send() {
  if ($("send").disabled) return;
  if (await call("act", { response: $("raw").value })) { $("raw").value = ""; $("checked").textContent = ""; }
}

async function check() {
  const found = await call("read", { response: $("raw").value });
  if (!found) return;
  $("checked").className = found.error ? "bad" : "good";
  $("checked").textContent = found.error ?? `would do: ${found.calls.join(" · ")}`;
}

const KEYS = [["1 … 9", "choose an action", (key) => forms.choose(Number(key) - 1, true), /^[1-9]$/],
  ["t", "thought", () => $("thought").focus()], ["r", "response as the model would write it", () => $("raw").focus()],
  ["o", "screenshot: arrow keys move the pointer, Shift by more, Enter clicks, Shift+Enter right click", () => $("stage").focus()],
  ["c", "open or close what the agent reads", () => { $("context").open = !$("context").open; }],
  ["g", "give up", () => $("give-up").click()], ["a", "again: the same task", () => $("again").click()],
  ["n", "next task", () => $("next").click()], ["s", "save the ended episode", () => $("save").click()],
  ["?", "this list", () => $("keys").showModal()]];

function listen() {
  $("give-up").onclick = () => call("give-up"); $("again").onclick = () => call("begin", { again: true });
  $("next").onclick = () => call("begin"); $("save").onclick = save; $("help").onclick = () => $("keys").showModal();
  $("send").onclick = send; $("check").onclick = check;
  $("raw").addEventListener("keydown", (event) => { if (event.key === "Enter" && event.ctrlKey) send(); });
  $("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.tagName === "TEXTAREA" && !event.shiftKey) { event.preventDefault(); $("form").requestSubmit(); }
  });
  const more = [["Esc", "leave a field, cancel picking a point"], ["Enter", "in a field: do the action (Shift+Enter breaks the line)"], ["Ctrl+Enter", "in the response: send it"]];
  $("key-table").append(...[...KEYS, ...more].map(([key, word]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, word))));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { document.activeElement?.blur(); stage.cancel(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open || event.target.matches("input, textarea, select")) return;
    const found = KEYS.find(([key, , , pattern]) => (pattern ? pattern.test(event.key) : key === event.key));
    if (found) { event.preventDefault(); found[2](event.key); }
  });
  setInterval(tick, 250);
}

async function follow() {
  let after = -1;
  for (;;) {
    try {
      const reply = await fetch(`state?after=${after}`);
      if (!reply.ok) throw new Error(String(reply.status));
      const old = state;
      state = await reply.json(); since = performance.now(); after = state.revision;
      if (document.body.dataset.phase === "gone") notice("");
      draw();
      if (old?.phase !== "waiting" && state.phase === "waiting") next(old);
    } catch (error) {
      document.body.dataset.phase = "gone"; $("phase").textContent = NAMES.gone;
      notice("no answer: start `mintact play` again and open the address it prints");
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
}

function next(old) {
  const waiting = queue, slipped = old && state.turns[state.turns.length - 1]?.error;
  queue = [];
  if (waiting.length && !slipped && state.turns.length) waiting[0]();
}

listen();
follow();
