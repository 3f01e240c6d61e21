// Parts that are only read: the agent's messages, the turns so far, how it ended.

import { h } from "./forms.js";

const drawn = new Map();

function changed(name, values) {
  const key = JSON.stringify(values), same = drawn.get(name) === key;
  drawn.set(name, key);
  return !same;
}

export function drawMessages(root, size, messages) {
  if (!changed("messages", messages)) return;
  const characters = messages.reduce((sum, message) => sum + message.text.length, 0);
  size.textContent = `${messages.length} messages, ${characters.toLocaleString()} characters`;
  root.replaceChildren(...messages.map((message) => {
    const images = message.images.map((digest) => h("img", { src: `images/${digest}`, alt: "screenshot" }));
    return h("div", { className: `message ${message.role}` }, h("h3", {}, message.role), ...images, h("pre", {}, message.text));
  }));
}

export function drawOthers(root, digests) {
  if (!changed("others", digests)) return;
  root.hidden = !digests.length;
  root.querySelector(".row").replaceChildren(...digests.map((digest) => h("img", { src: `images/${digest}`, alt: "shown before the screenshot" })));
}

export function drawHistory(root, strip, turns) {
  if (!changed("turns", turns)) return;
  root.hidden = !turns.length;
  strip.replaceChildren(...turns.map((turn) => {
    const does = turn.does.flatMap((word, k) => [k ? " · " : "", h("code", {}, word)]);
    const facts = [`turn ${turn.index + 1}`, turn.error ? null : `${turn.seconds.toFixed(3)} s`,
      turn.reward ? `reward ${Number(turn.reward.toFixed(4))}` : null].filter(Boolean).join(" · ");
    return h("figure", {}, thumb(turn),
      h("figcaption", {}, h("span", { className: "faint" }, facts), ...(does.length ? does : ["no action"]),
        turn.error ? h("div", { className: "error" }, turn.error) : null),
      h("pre", {}, turn.response));
  }));
  strip.scrollLeft = strip.scrollWidth;
}

function thumb(turn) {
  if (!turn.image) return h("div", { className: "thumb" }, h("pre", {}, turn.observation || "(no new observation)"));
  const [width, height] = turn.size;
  const image = h("img", { src: `images/${turn.image}`, alt: `screenshot of turn ${turn.index + 1}`, className: width < 256 ? "sharp" : "" });
  const over = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  over.setAttribute("viewBox", `0 0 ${width} ${height}`);
  over.innerHTML = turn.marks; // shapes made of numbers by the server, nothing of the environment's
  return h("div", { className: "thumb" }, image, over);
}

export function drawEnd(root, state, on) {
  const { phase, outcome, failure, state_check: check, verdict, judge, judge_error: error, saved } = state;
  root.hidden = !["ended", "failed", "judging"].includes(phase);
  if (!changed("end", { phase, outcome, failure, check, verdict, error, saved })) return;
  if (root.hidden) return;
  if (failure) return drawFailure(root, failure, state.said, on);
  const label = verdict?.label ?? (phase === "judging" ? "judging" : error ? "judge failed" : outcome);
  root.className = `card ${{ success: "good", failure: "bad" }[label] ?? "warn"}`;
  const rows = [["outcome", outcome.replace("_", " ")], ["state check", check ? stated(check) : "the environment has none"],
    ["judge", judge ? verdict ? `${verdict.judge}: ${verdict.reason || verdict.label}${verdict.reward === null ? "" : ` (reward ${verdict.reward})`}` : error || "…" : "none asked"]];
  if (saved) rows.push(["saved to", saved]);
  const buttons = phase === "judging" ? [] : [
    saved || !state.turns.length ? null : h("button", { className: "main", onclick: on.save }, "Save as a demonstration"),
    error ? h("button", { onclick: on.judge }, "Judge again") : null,
    h("button", { onclick: on.next }, "Next task"), h("button", { onclick: on.again }, "Again")];
  root.replaceChildren(h("h2", {}, label.replace("_", " ")), list(rows), h("div", { className: "row" }, ...buttons));
}

function drawFailure(root, failure, said, on) {
  root.className = "card bad";
  const rows = [["phase", failure.phase], ["kind", failure.kind], ["message", failure.message], ["instance", failure.instance || "–"], ["last response", said || "–"]];
  const log = failure.log_tail ? [h("h3", {}, "Last lines of its log"), h("pre", { className: "log" }, failure.log_tail)] : [];
  root.replaceChildren(h("h2", {}, "environment failure"), list(rows), ...log,
    h("div", { className: "row" }, h("button", { className: "main", onclick: on.again }, "New instance, same task"), h("button", { onclick: on.next }, "Next task")));
  root.querySelectorAll(".log").forEach((lines) => { lines.scrollTop = lines.scrollHeight; });
}

function list(rows) {
  return h("dl", {}, ...rows.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
}

function stated(check) {
  const parts = Object.entries(check.details).map(([key, value]) => `${value === true ? "✓ " : value === false ? "✗ " : ""}${key}${typeof value === "boolean" ? "" : `: ${JSON.stringify(value)}`}`);
  return `${check.success ? "success" : "no success"}, score ${Number(check.score.toFixed(3))}${parts.length ? ` — ${parts.join(", ")}` : ""}`;
}
