"use strict";
// The graph of one module: scopes that fold, laid out in layers, drawn as SVG.

const WIDE = 168, HIGH = 34, GAP = 14, DOWN = 30, HEAD = 22, PAD = 12;

class Graph {
  // `nodes`: [number, operator, name, scope, text, [numbers of what it reads]].
  constructor(nodes, marks) {
    this.marks = marks;
    this.root = this.scope("", null);
    this.leaves = new Map();
    for (const [number, operator, name, path, text, reads] of nodes) {
      let parent = this.root;
      for (const part of path ? path.split("/") : []) {
        if (!parent.scopes.has(part)) parent.scopes.set(part, this.scope(part, parent));
        parent = parent.scopes.get(part);
      }
      const leaf = { number, operator, name, text, reads, parent, words: `${operator} ${name} ${path} ${text}`.toLowerCase() };
      parent.children.push(leaf);
      this.leaves.set(number, leaf);
    }
    this.lift(this.root);
    for (const leaf of this.leaves.values())
      for (const source of leaf.reads) if (this.leaves.has(source)) this.join(this.leaves.get(source), leaf);
    this.count(this.root);
    this.open = new Set([this.root]);
    if (nodes.length <= 150) this.unfold();
  }

  scope(name, parent) {
    const made = { name, parent, children: [], scopes: new Map(), edges: new Map(), group: true };
    if (parent) parent.children.push(made);
    return made;
  }

  // A scope that is all that another holds is no scope of its own.
  lift(scope) {
    for (const inner of scope.scopes.values()) this.lift(inner);
    if (scope.children.length === 1 && scope.children[0].group) {
      const only = scope.children[0];
      scope.name = scope.name ? `${scope.name}/${only.name}` : only.name;
      scope.children = only.children;
      for (const child of scope.children) child.parent = scope;
    }
  }

  path(item) {
    const found = [];
    for (let at = item; at; at = at.parent) found.unshift(at);
    return found;
  }

  // An edge belongs to the innermost scope that holds both ends, between what stands in it.
  join(from, to) {
    const a = this.path(from), b = this.path(to);
    let depth = 0;
    while (a[depth + 1] === b[depth + 1]) depth++;
    const scope = a[depth], ends = scope.edges;
    if (!ends.has(b[depth + 1])) ends.set(b[depth + 1], new Set());
    ends.get(b[depth + 1]).add(a[depth + 1]);
  }

  count(scope) {
    scope.size = 0;
    scope.marked = new Set();
    for (const child of scope.children) {
      if (child.group) { this.count(child); scope.size += child.size; child.marked.forEach((m) => scope.marked.add(m)); }
      else { scope.size++; if (this.marks.has(child.number)) scope.marked.add(this.marks.get(child.number)); }
    }
  }

  unfold(scope = this.root) {
    this.open.add(scope);
    for (const child of scope.children) if (child.group) this.unfold(child);
  }

  fold() { this.open = new Set([this.root]); }

  reveal(leaf) { for (const scope of this.path(leaf)) if (scope.group) this.open.add(scope); }

  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return words.length ? [...this.leaves.values()].filter((l) => words.every((w) => l.words.includes(w))) : [];
  }

  // Places of everything in an open scope, inner scopes first: layers by the longest path from the top.
  layout(scope = this.root) {
    for (const child of scope.children) {
      if (child.group && this.open.has(child)) this.layout(child);
      else { child.w = WIDE; child.h = HIGH; }
    }
    const layers = this.layers(scope);
    let y = HEAD + PAD, width = 0;
    for (const layer of layers) {
      layer.width = layer.reduce((sum, item) => sum + item.w + GAP, -GAP);
      width = Math.max(width, layer.width);
    }
    for (const layer of layers) {
      let x = PAD + (width - layer.width) / 2;
      const high = Math.max(...layer.map((item) => item.h));
      for (const item of layer) { item.x = x; item.y = y + (high - item.h) / 2; x += item.w + GAP; }
      y += high + DOWN;
    }
    scope.w = Math.max(width + 2 * PAD, WIDE);
    scope.h = y - DOWN + PAD;
  }

  layers(scope) {
    const rank = new Map(), waiting = new Map(), after = new Map();
    for (const item of scope.children) {
      const sources = [...(scope.edges.get(item) || [])];
      waiting.set(item, sources.length);
      for (const source of sources) { if (!after.has(source)) after.set(source, []); after.get(source).push(item); }
    }
    const ready = scope.children.filter((item) => !waiting.get(item));
    ready.forEach((item) => rank.set(item, 0));
    const left = new Set(scope.children);
    while (left.size) {
      let item = ready.shift();
      while (item && !left.has(item)) item = ready.shift();
      if (!item) { // scopes that feed each other: the first goes first
        item = left.values().next().value;
        if (!rank.has(item)) rank.set(item, 0);
      }
      left.delete(item);
      for (const next of after.get(item) || []) {
        if (!left.has(next)) continue;
        rank.set(next, Math.max(rank.get(next) || 0, rank.get(item) + 1));
        waiting.set(next, waiting.get(next) - 1);
        if (!waiting.get(next)) ready.push(next);
      }
    }
    // What is read late stands near its reader, not at the top.
    for (const item of [...scope.children].reverse()) {
      const readers = after.get(item) || [];
      if (readers.length && !(scope.edges.get(item) || new Set()).size)
        rank.set(item, Math.max(0, Math.min(...readers.map((r) => rank.get(r))) - 1));
    }
    const layers = [];
    for (const item of scope.children) (layers[rank.get(item)] ||= []).push(item);
    const place = new Map();
    const used = layers.filter(Boolean);
    used.forEach((layer, number) => {
      if (number) {
        const middle = (item) => {
          const at = [...(scope.edges.get(item) || [])].map((s) => place.get(s)).filter((p) => p !== undefined);
          return at.length ? at.reduce((a, b) => a + b, 0) / at.length : 0.5;
        };
        const wanted = new Map(layer.map((item) => [item, middle(item)]));
        layer.sort((a, b) => wanted.get(a) - wanted.get(b));
      }
      layer.forEach((item, i) => place.set(item, (i + 0.5) / layer.length));
    });
    return used;
  }

  draw(hits, chosen) {
    this.layout();
    const out = [];
    this.inside(this.root, 0, 0, out, hits, chosen);
    return out.join("");
  }

  inside(scope, dx, dy, out, hits, chosen) {
    for (const [to, sources] of scope.edges)
      for (const from of sources) out.push(this.edge(from, to, dx, dy));
    for (const child of scope.children) {
      const x = child.x + dx, y = child.y + dy;
      if (child.group && this.open.has(child)) {
        const id = this.id(child);
        out.push(`<g class="scope" data-scope="${id}"><rect x="${x}" y="${y}" width="${child.w}" height="${child.h}" rx="6"/>`);
        out.push(`<text x="${x + 8}" y="${y + 15}">− ${escaped(child.name)}</text></g>`);
        this.inside(child, x, y, out, hits, chosen);
      } else if (child.group) {
        const mark = child.marked.size ? " changed" : "", inner = hits.size && this.holds(child, hits) ? " hit" : "";
        out.push(`<g class="folded${mark}${inner}" data-scope="${this.id(child)}">`, box(x, y, child.w, child.h));
        out.push(label(x, y, `+ ${child.name}`, `${child.size} nodes`), "</g>");
      } else {
        const mark = this.marks.get(child.number) || "";
        const hit = hits.has(child) ? " hit" : "", on = child === chosen ? " chosen" : "";
        out.push(`<g class="node ${mark}${hit}${on}" data-node="${child.number}">`, box(x, y, child.w, child.h));
        out.push(label(x, y, child.operator.replace(/^glow(_cpu)?(_instr)?\./, ""), child.name), "</g>");
      }
    }
  }

  holds(scope, hits) {
    for (const leaf of hits) for (let at = leaf.parent; at; at = at.parent) if (at === scope) return true;
    return false;
  }

  id(scope) {
    this.scopes ||= [];
    let at = this.scopes.indexOf(scope);
    if (at < 0) at = this.scopes.push(scope) - 1;
    return at;
  }

  edge(from, to, dx, dy) {
    const x1 = from.x + dx + from.w / 2, y1 = from.y + dy + from.h, x2 = to.x + dx + to.w / 2, y2 = to.y + dy;
    const far = y2 - y1 > 3 * (HIGH + DOWN) && Math.abs(x1 - x2) < WIDE ? WIDE * 0.8 : 0;
    const bend = Math.max(12, Math.min(60, (y2 - y1) / 2));
    return `<path class="edge" d="M${x1} ${y1}C${x1 + far} ${y1 + bend} ${x2 + far} ${y2 - bend} ${x2} ${y2}"/>`;
  }
}

function box(x, y, w, h) { return `<rect x="${x}" y="${y}" width="${w}" height="${h}" rx="4"/>`; }

function label(x, y, first, second) {
  return `<text x="${x + 8}" y="${y + 14}">${escaped(cut(first))}</text>`
    + `<text class="soft" x="${x + 8}" y="${y + 28}">${escaped(cut(second))}</text>`;
}

function cut(text) { return text.length > 23 ? text.slice(0, 10) + "…" + text.slice(-12) : text; }

function escaped(text) {
  return String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
}
