// The page: passes with their differences and graphs, memory, kernels, warnings. `#pass=3&view=graph&search=conv`
// in the address opens it there.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.hash.slice(1));
const changed = data.steps.map((s, i) => i).filter((i) => data.steps[i].lines);
const state = { step: changed[changed.length > 1 ? 1 : 0], view: asked.get("view") || "diff", search: asked.get("search") || "", chosen: null };
const graphs = new Map();
let frame = { x: 0, y: 0, scale: 1 }, svg = null;

const ms = (seconds) => (seconds * 1e3).toFixed(seconds < 0.01 ? 2 : 1) + " ms";
const bytes = (n) => (n >= 2 ** 20 ? (n / 2 ** 20).toFixed(1) + " MiB" : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B");

function theme(name) { document.documentElement.dataset.theme = name; }

function tabs() {
  const names = { passes: "passes", memory: "memory", kernels: "kernels", warnings: `warnings (${data.warnings.length})` };
  for (const [id, name] of Object.entries(names)) {
    const button = document.createElement("button");
    button.textContent = name;
    button.onclick = () => {
      for (const other of Object.keys(names)) $(other).hidden = other !== id;
      for (const b of $("tabs").children) b.classList.toggle("on", b === button);
    };
    $("tabs").append(button, " ");
    if (id === (asked.get("tab") || "passes")) button.click();
  }
}

function steps() {
  const rows = Object.entries(data.seconds).map(([n, s]) => `<tr><td>${escaped(n)}</td><td>${ms(s)}</td></tr>`);
  $("seconds").innerHTML = `<table>${rows.join("")}</table>`;
  const most = Math.max(...data.steps.map((s) => s.seconds), 1e-9);
  const out = [];
  let phase = "";
  data.steps.forEach((step, i) => {
    if (!step.lines && !$("all").checked) return;
    if (step.phase && step.phase !== phase) out.push(`<li class="phase">${escaped(phase = step.phase)}</li>`);
    const on = i === state.step ? " on" : "", same = step.lines ? "" : " same";
    const part = `<span class="part" style="width:${(100 * step.seconds) / most}%"></span>`;
    out.push(`<li class="step${on}${same}" data-step="${i}"><span class="time">${i ? ms(step.seconds) : ""}</span>${escaped(step.name)}${part}</li>`);
  });
  $("steps").innerHTML = out.join("");
}

const before = (i) => { for (let at = i - 1; at >= 0; at--) if (data.steps[at].lines) return data.steps[at]; return null; };

function graphOf(i, side) {
  const key = `${i} ${side}`;
  if (graphs.has(key)) return graphs.get(key);
  const now = data.steps[i].nodes, old = (before(i) || data.steps[i]).nodes;
  const shown = side === "before" ? old : now, other = side === "before" ? now : old;
  const there = new Set(other), known = new Set(other.map((n) => data.nodes[n][0]));
  const marks = new Map();
  for (const n of shown) {
    const number = data.nodes[n][0];
    if (!known.has(number)) marks.set(number, side === "before" ? "removed" : "added");
    else if (!there.has(n)) marks.set(number, "changed");
  }
  const graph = new Graph(shown.map((n) => data.nodes[n]), marks);
  graphs.set(key, graph);
  return graph;
}

function show() {
  const views = { diff: "difference", text: "whole text", graph: "graph after", before: "graph before" };
  $("views").innerHTML = Object.entries(views)
    .map(([id, name]) => `<button data-view="${id}" class="${id === state.view ? "on" : ""}">${name}</button>`).join(" ");
  const drawn = state.view === "graph" || state.view === "before";
  $("folds").hidden = !drawn;
  const step = data.steps[state.step];
  const counts = Object.entries(step.counts || {}).map(([n, d]) => `${n} ${d > 0 ? "+" : ""}${d}`);
  $("counts").textContent = step.lines ? counts.join(", ") || "other order, operands, types or properties" : "no change";
  $("detail").textContent = "";
  const shownStep = step.lines ? state.step : changed.filter((i) => i <= state.step).pop();
  if (drawn) picture(graphOf(shownStep, state.view === "before" ? "before" : "after"), true);
  else difference(shownStep, state.view === "text");
}

function difference(i, whole) {
  const step = data.steps[i], old = (before(i) || { lines: [] }).lines, words = state.search.toLowerCase();
  const out = [];
  let at = 0, hits = 0;
  const line = (n, kind, sign) => {
    const text = data.lines[n], hit = words && text.toLowerCase().includes(words);
    hits += hit ? 1 : 0;
    return `<div class="${kind}${hit ? " hit" : ""}">${sign} ${escaped(text)}</div>`;
  };
  const same = (from, to, first, last) => {
    const lines = step.lines.slice(from, to).map((n) => line(n, "", " "));
    const keep = 3;
    if (whole || lines.length <= 2 * keep + 1) return out.push(...lines);
    if (!first) out.push(...lines.slice(0, keep));
    const hidden = lines.slice(first ? 0 : keep, last ? lines.length : lines.length - keep);
    out.push(`<div class="more">… ${hidden.length} lines that are the same</div><div hidden>${hidden.join("")}</div>`);
    if (!last) out.push(...lines.slice(lines.length - keep));
  };
  for (const [a, b, c, d] of i ? step.edits : []) {
    same(at, c, at === 0, false);
    for (const n of old.slice(a, b)) out.push(line(n, "removed", "-"));
    for (const n of step.lines.slice(c, d)) out.push(line(n, "added", "+"));
    at = d;
  }
  same(at, step.lines.length, false, true);
  $("view").innerHTML = `<pre class="diff">${out.join("")}</pre>`;
  $("hits").textContent = words ? `${hits} lines` : "";
  const first = $("view").querySelector(".hit");
  if (first && first.offsetParent) first.scrollIntoView({ block: "center" });
}

function picture(graph, fit) {
  const found = graph.find(state.search), hits = new Set(found);
  if (found.length && found.length <= 40) found.forEach((leaf) => graph.reveal(leaf));
  const body = graph.draw(hits, state.chosen);
  $("view").innerHTML = `<svg><g id="drawing">${body}</g></svg>`;
  svg = $("view").querySelector("svg");
  $("hits").textContent = state.search ? `${found.length} nodes` : `${graph.leaves.size} nodes`;
  const box = svg.getBoundingClientRect();
  if (found.length && fit) {
    const node = $("view").querySelector(".hit > rect");
    frame.scale = 1;
    if (node) frame = { scale: 1, x: box.width / 2 - node.getAttribute("x") - WIDE / 2, y: box.height / 2 - node.getAttribute("y") };
  } else if (fit) {
    const scale = Math.min(1, box.width / graph.root.w || 1);
    frame = { scale: Math.max(scale, 0.15), x: Math.max(0, (box.width - graph.root.w * scale) / 2), y: 0 };
  }
  move();
  svg.onwheel = (event) => {
    event.preventDefault();
    const factor = Math.exp(-event.deltaY / 500), at = svg.getBoundingClientRect();
    const x = event.clientX - at.left, y = event.clientY - at.top;
    frame = { scale: frame.scale * factor, x: x - (x - frame.x) * factor, y: y - (y - frame.y) * factor };
    move();
  };
  svg.onpointerdown = (event) => {
    const start = { x: event.clientX - frame.x, y: event.clientY - frame.y };
    let far = false;
    svg.onpointermove = (e) => {
      far ||= Math.abs(e.clientX - event.clientX) + Math.abs(e.clientY - event.clientY) > 4;
      frame.x = e.clientX - start.x; frame.y = e.clientY - start.y; move();
    };
    svg.onpointerup = svg.onpointerleave = () => {
      svg.onpointermove = svg.onpointerup = svg.onpointerleave = null;
      if (!far) pick(graph, event.target);
    };
  };
}

function pick(graph, target) {
  const scope = target.closest("[data-scope]"), node = target.closest("[data-node]");
  if (node) {
    state.chosen = graph.leaves.get(+node.dataset.node);
    $("detail").textContent = `${state.chosen.text}\n${graph.path(state.chosen).map((p) => p.name).filter(Boolean).join("/")}`;
  } else if (scope && (target.tagName === "text" || scope.classList.contains("folded"))) {
    const item = graph.scopes[+scope.dataset.scope];
    if (!graph.open.delete(item)) graph.open.add(item);
  } else return;
  picture(graph, false);
}

function move() { $("drawing").setAttribute("transform", `translate(${frame.x} ${frame.y}) scale(${frame.scale})`); }

function memory() {
  if (!data.memory.length) { $("memory").textContent = "The pipeline does not end with a plan of memory."; return; }
  for (const { function: name, labels, buffers } of data.memory) {
    if (!buffers.length) {
      $("memory").insertAdjacentHTML("beforeend", `<h2>@${escaped(name)}</h2><p>No buffers beside inputs, outputs and weights.</p>`);
      continue;
    }
    const end = Math.max(...buffers.map(([, , , offset, size]) => offset + size)), steps = Math.max(labels.length, 1);
    const live = new Array(steps + 1).fill(0);
    for (const [, from, to, , size] of buffers) for (let i = from; i < to; i++) live[i] += size;
    const rects = buffers.map(([hint, from, to, offset, size], i) => {
      const y = 1000 - (1000 * (offset + size)) / end, h = (1000 * size) / end;
      const told = `${hint}: ${bytes(size)} at ${offset}, instructions ${from} to ${to}`;
      return `<rect class="life" fill="hsl(${(i * 67) % 360} 55% 55% / .75)" x="${(1000 * from) / steps}" y="${y}" width="${(1000 * Math.max(to - from, 0.2)) / steps}" height="${h}"><title>${escaped(told)}</title></rect>`;
    });
    const line = live.map((n, i) => `${i ? "L" : "M"}${(1000 * i) / steps} ${1000 - (1000 * n) / end}`).join("");
    const most = Math.max(...live), at = live.indexOf(most);
    $("memory").insertAdjacentHTML("beforeend",
      `<h2>@${escaped(name)}</h2><p>Arena ${bytes(end)}, most alive ${bytes(most)} at instruction ${at} (${escaped(labels[at] || "")}); `
      + `${buffers.length} buffers over ${labels.length} instructions. The line is what is alive.</p>`
      + `<svg viewBox="0 0 1000 1000" preserveAspectRatio="none">${rects.join("")}<path vector-effect="non-scaling-stroke" d="${line}"/></svg>`);
  }
}

function kernels(order = null, down = true) {
  if (!data.kernels.length) { $("kernels").textContent = "No kernels were measured: the program is not compiled for the CPU."; return; }
  const total = data.kernels.reduce((sum, k) => sum + k.seconds, 0) || 1e-12;
  const columns = [["#", (k) => k.number, 1], ["node", (k) => k.nodes.join(" + "), 0], ["operation", (k) => k.label, 0], ["kernel", (k) => k.kernel, 0],
    ["µs", (k) => k.seconds * 1e6, 1], ["% of time", (k) => (100 * k.seconds) / total, 1], ["GFLOP/s", (k) => k.gflops, 1], ["GB/s", (k) => k.gbytes, 1]];
  const rows = data.kernels.map((k, number) => ({ ...k, number }));
  if (order !== null) rows.sort((a, b) => {
    const x = columns[order][1](a), y = columns[order][1](b);
    return (down ? -1 : 1) * (x > y ? 1 : x < y ? -1 : 0);
  });
  const cell = (k, [name, get, number]) => {
    const value = get(k);
    if (!number) return `<td class="node">${escaped(value)}</td>`;
    const share = name === "% of time" ? `<span class="share" style="width:${Math.min(value, 60)}px"></span>` : "";
    return `<td class="number">${share}${name === "#" ? value : value.toFixed(1)}</td>`;
  };
  const head = columns.map(([name, , number], i) => `<th class="${number ? "number" : ""}" data-column="${i}">${name}</th>`).join("");
  $("kernels").innerHTML = `<p>${ms(total)} in ${rows.length} steps, median of the runs.</p><table><thead><tr>${head}</tr></thead>`
    + `<tbody>${rows.map((k) => `<tr>${columns.map((c) => cell(k, c)).join("")}</tr>`).join("")}</tbody></table>`;
  for (const th of $("kernels").querySelectorAll("th"))
    th.onclick = () => kernels(+th.dataset.column, order === +th.dataset.column ? !down : true);
}

function warnings() {
  $("warnings").innerHTML = data.warnings.length
    ? `<ul>${data.warnings.map((w) => `<li><pre>${escaped(w)}</pre></li>`).join("")}</ul>` : "None.";
}

theme(asked.get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
if (asked.has("pass")) state.step = Math.min(+asked.get("pass"), data.steps.length - 1);
$("search").value = state.search;
$("all").onchange = steps;
$("steps").onclick = (event) => {
  const item = event.target.closest("[data-step]");
  if (item) { state.step = +item.dataset.step; state.chosen = null; steps(); show(); }
};
$("views").onclick = (event) => { if (event.target.dataset.view) { state.view = event.target.dataset.view; show(); } };
$("search").oninput = () => { state.search = $("search").value; show(); };
const shownGraph = () => graphOf(data.steps[state.step].lines ? state.step : changed[0], state.view === "before" ? "before" : "after");
$("unfold").onclick = () => { const graph = shownGraph(); graph.unfold(); picture(graph, true); };
$("fold").onclick = () => { const graph = shownGraph(); graph.fold(); picture(graph, true); };
$("view").onclick = (event) => {
  if (event.target.className === "more") { event.target.nextElementSibling.hidden = false; event.target.remove(); }
};
tabs(); steps(); memory(); kernels(); warnings();
const began = performance.now();
show();
document.body.dataset.opened = Math.round(performance.now());
document.body.dataset.shown = Math.round(performance.now() - began);
