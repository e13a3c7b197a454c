// Draws the relations that the table beside it lists: clusters, zoom, pan, and one page with its context.
// The layout is d3-force's; without this script there is a still picture of the nearest pages.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const TICKS = 160;
const LABEL_PX = 13;
const MOST_CHARS = 40;

function make(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function fold(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

function readGraph(area) {
  const nodes = new Map(), edges = [];
  const end = (path, cell) => {
    const link = cell.querySelector("a");
    if (!nodes.has(path)) {
      const title = (link ?? cell.firstChild).textContent.trim();
      const kind = !link ? "missing" : path.startsWith("people/") ? "person" : "page";
      nodes.set(path, { id: path, title, folded: fold(title), kind, near: new Set() });
    }
    const node = nodes.get(path);
    if (link) link.addEventListener("click", (event) => area.dispatchEvent(new CustomEvent("choose", { detail: { node, event } })));
    return node;
  };
  for (const row of area.querySelectorAll("tr[data-from]")) {
    const source = end(row.dataset.from, row.cells[0]), target = end(row.dataset.to, row.cells[2]);
    source.near.add(target);
    target.near.add(source);
    edges.push({ source, target, row, kind: row.dataset.kind, words: row.innerText.replace(/\s+/g, " ") });
  }
  // Many are listed as clusters, which open.
  const clusters = [...area.querySelectorAll("[data-cluster]")];
  for (const row of clusters) {
    const [link, names] = row.children;
    nodes.set(row.dataset.cluster, { id: row.dataset.cluster, title: row.dataset.title, folded: fold(names.textContent), kind: "cluster", size: Number(row.dataset.size), open: link.href, near: new Set() });
  }
  for (const row of clusters) {
    const source = nodes.get(row.dataset.cluster);
    for (const target of row.dataset.beside.split("\n").filter(Boolean).map((path) => nodes.get(path))) {
      if (!target.near.has(source)) edges.push({ source, target, row, kind: "relation", words: `${source.title} – ${target.title}` });
      source.near.add(target);
    }
  }
  return { nodes: [...nodes.values()].sort((a, b) => b.near.size - a.near.size || (a.id < b.id ? -1 : 1)), edges };
}

// Every page takes the cluster that most of its neighbours are in, until none changes.
function findClusters(nodes) {
  for (const node of nodes) node.cluster = node;
  for (let round = 0, changed = true; changed && round < 20; round++) {
    changed = false;
    for (const node of nodes) {
      const votes = new Map();
      for (const other of node.near) votes.set(other.cluster, (votes.get(other.cluster) ?? 0) + 1);
      let best = node.cluster, most = votes.get(best) ?? 0;
      for (const [cluster, count] of votes) if (count > most) [best, most] = [cluster, count];
      if (best !== node.cluster) [node.cluster, changed] = [best, true];
    }
  }
  const groups = new Map();
  for (const node of nodes) groups.set(node.cluster, [...(groups.get(node.cluster) ?? []), node]);
  return [...groups.values()].sort((a, b) => b.length - a.length);
}

function layOut(nodes, edges, clusters) {
  let before = 0;
  clusters.forEach((members, number) => {
    const reach = 46 * Math.sqrt(before + members.length / 2), angle = number * 2.4;
    for (const node of members) {
      [node.homeX, node.homeY, node.group] = number ? [reach * Math.cos(angle), reach * Math.sin(angle), number] : [0, 0, 0];
      node.radius = 5 + 1.6 * Math.sqrt(node.near.size);
    }
    before += members.length;
  });
  const links = edges.map((edge) => ({ source: edge.source, target: edge.target }));
  d3.forceSimulation(nodes)
    .force("link", d3.forceLink(links).distance(52).strength((link) => (link.source.group === link.target.group ? 0.35 : 0.01)))
    .force("charge", d3.forceManyBody().strength(-130).distanceMax(500))
    .force("x", d3.forceX((node) => node.homeX).strength(0.13))
    .force("y", d3.forceY((node) => node.homeY).strength(0.13))
    .force("collide", d3.forceCollide((node) => node.radius + 9))
    .stop()
    .tick(TICKS);
}

// Clusters stand in rows, so that each has room for its name.
function layInRows(nodes, { width, height }) {
  const columns = Math.max(2, Math.min(Math.round(width / 200), nodes.length)), rows = Math.ceil(nodes.length / columns);
  const isStaggered = columns > 2;
  nodes.forEach((node, number) => {
    const row = Math.floor(number / columns);
    node.x = ((number % columns) + (isStaggered ? (row % 2) / 2 : 0)) * (width / (columns + 0.5));
    node.y = row * (height / rows);
    node.radius = Math.max(Math.min(8 + 1.7 * Math.sqrt(node.size), height / rows / 2 - 14), 9);
  });
}

// The outline of a cluster: its convex hull.
function hullOf(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (list) => {
    const kept = [];
    for (const p of list) {
      while (kept.length > 1) {
        const [a, b] = kept.slice(-2);
        if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0) break;
        kept.pop();
      }
      kept.push(p);
    }
    return kept.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

function drawRelations(area) {
  const { nodes, edges } = readGraph(area);
  if (nodes.length < 2 || !window.d3) return;
  const isOfClusters = Boolean(nodes[0].size), clusters = isOfClusters ? [] : findClusters(nodes);
  if (!isOfClusters) layOut(nodes, edges, clusters);

  const place = area.querySelector("[data-picture]"), tools = area.querySelector("[data-tools]");
  const find = tools.querySelector("input"), told = area.querySelector("[data-told]");
  const view = { x: 0, y: 0, k: 1 };
  let chosen = null, wanted = "";

  const hulls = clusters.filter((members) => members.length > 2).map((members) => ({ members, shape: make("path", { class: "hull" }) }));
  for (const edge of edges) edge.line = make("line", { class: edge.kind }, make("title", {}, edge.words));
  for (const node of nodes) {
    node.circle = make("circle", { class: node.kind, r: node.radius ?? 0 }, make("title", {}, node.title));
    node.label = make("text", {}, node.title.length > MOST_CHARS ? `${node.title.slice(0, MOST_CHARS - 1)}…` : node.title);
    node.count = make("text", { class: "count" }, node.size ?? "");
    node.circle.addEventListener("click", (event) => { event.stopPropagation(); if (!dragged) choose(node); });
  }
  const svg = make("svg", { class: "web", role: "group", tabindex: 0, "aria-label": area.dataset.relations },
    make("g", {}, ...hulls.map((hull) => hull.shape)), make("g", {}, ...edges.map((edge) => edge.line)),
    make("g", {}, ...nodes.map((node) => node.circle)), make("g", {}, ...nodes.flatMap((node) => (node.size ? [node.label, node.count] : [node.label]))));
  place.replaceChildren(svg);
  area.classList.add(isOfClusters ? "clustered" : "drawn");
  if (isOfClusters) layInRows(nodes, svg.getBoundingClientRect());
  tools.hidden = false;
  tools.querySelector("datalist").replaceChildren(...nodes.map((node) => Object.assign(document.createElement("option"), { value: node.title })));
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = `${LABEL_PX}px system-ui, sans-serif`;
  for (const node of nodes) node.width = measure.measureText(node.label.textContent).width + 6;

  const isNear = (node) => !chosen || node === chosen || chosen.near.has(node);
  const isWanted = (node) => wanted && node.folded.includes(wanted);

  function render() {
    const { width, height } = svg.getBoundingClientRect();
    const at = (node) => [(node.x - view.x) * view.k + width / 2, (node.y - view.y) * view.k + height / 2];
    const scale = Math.min(Math.max(view.k, 0.55), 1.6);
    for (const node of nodes) {
      [node.sx, node.sy] = at(node);
      node.isQuiet = wanted ? !isWanted(node) : !isNear(node);
      node.circle.setAttribute("cx", node.sx);
      node.circle.setAttribute("cy", node.sy);
      node.circle.setAttribute("r", node.radius * scale);
      node.count.setAttribute("x", node.sx);
      node.count.setAttribute("y", node.sy + 4);
      node.circle.classList.toggle("center", node === chosen || Boolean(isWanted(node)));
      node.circle.classList.toggle("quiet", node.isQuiet);
    }
    for (const { line, source, target } of edges) {
      for (const [name, value] of [["x1", source.sx], ["y1", source.sy], ["x2", target.sx], ["y2", target.sy]]) line.setAttribute(name, value);
      line.classList.toggle("quiet", chosen ? source !== chosen && target !== chosen : source.isQuiet && target.isQuiet);
    }
    for (const { members, shape } of hulls) {
      shape.setAttribute("d", `M${hullOf(members.map((node) => [node.sx, node.sy])).map((point) => point.join(" ")).join("L")}Z`);
    }
    // Names are written where they are free; those that matter most come first.
    const taken = [];
    const rank = (node) => (node === chosen ? 2 : 0) + (node.isQuiet ? 0 : 1);
    for (const node of [...nodes].sort((a, b) => rank(b) - rank(a) || b.near.size - a.near.size)) {
      const x = Math.max(Math.min(node.sx - node.width / 2, width - node.width - 1), 1), y = node.sy + node.radius * scale + 2;
      const box = [x, y, x + node.width, y + LABEL_PX + 4];
      const hides = nodes.some((other) => other !== node && !other.isQuiet && other.sx > box[0] && other.sx < box[2] && other.sy > box[1] && other.sy < box[3]);
      const isFree = node.sx > 0 && node.sx < width && y > 0 && box[3] < height && !(hides && node !== chosen) && !taken.some((b) => box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3]);
      const isShown = isFree && !(node.isQuiet && (chosen || wanted));
      node.label.style.display = isShown ? "" : "none";
      if (!isShown) continue;
      taken.push(box);
      node.label.setAttribute("x", x + node.width / 2);
      node.label.setAttribute("y", y + LABEL_PX);
    }
  }

  function fit(some) {
    const { width, height } = svg.getBoundingClientRect();
    const xs = some.map((node) => node.x), ys = some.map((node) => node.y);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    view.k = Math.min((width - 110) / Math.max(right - left, 60), (height - (isOfClusters ? 100 : 70)) / Math.max(bottom - top, 60), 3);
    [view.x, view.y] = [(left + right) / 2, (top + bottom) / 2];
    render();
  }

  function choose(node, move = true) {
    if (node?.open) return location.assign(node.open);
    chosen = node;
    let count = 0;
    for (const edge of edges) {
      edge.row.hidden = Boolean(node) && edge.source !== node && edge.target !== node;
      count += !edge.row.hidden;
    }
    told?.replaceChildren();
    if (node) {
      const link = (href, text) => Object.assign(document.createElement("a"), { href, textContent: text });
      const page = node.kind === "missing" ? "" : node.id.startsWith("people/") ? node.id.replace(/\.md$/, "") : `memory/${node.id}`;
      const base = area.dataset.base, path = page.split("/").map(encodeURIComponent).join("/");
      const bold = document.createElement("strong");
      bold.append(page ? link(`${base}${path}`, node.title) : node.title);
      const all = Object.assign(document.createElement("button"), { type: "button", className: "quiet small", textContent: "Show all" });
      all.addEventListener("click", () => { choose(null); find.focus(); });
      told.append(bold, ` has ${count} relation${count === 1 ? "" : "s"} here, with ${node.near.size} other${node.near.size === 1 ? "" : "s"}. `, all);
    }
    if (move) fit(node ? [node, ...node.near] : nodes);
    else render();
  }

  function zoom(factor, x, y) {
    const { width, height } = svg.getBoundingClientRect();
    const k = Math.min(Math.max(view.k * factor, 0.1), 6);
    view.x += (x - width / 2) * (1 / view.k - 1 / k);
    view.y += (y - height / 2) * (1 / view.k - 1 / k);
    view.k = k;
    render();
  }
  const zoomMiddle = (factor) => zoom(factor, svg.clientWidth / 2, svg.clientHeight / 2);

  const fingers = new Map();
  let dragged = false;
  svg.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, event); dragged = false; });
  svg.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    const [dx, dy] = [event.clientX - last.clientX, event.clientY - last.clientY];
    if (!dragged && Math.hypot(dx, dy) < 4) return;
    if (!dragged) { dragged = true; svg.setPointerCapture(event.pointerId); }
    const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
    fingers.set(event.pointerId, event);
    if (other) {
      const apart = (finger) => Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY);
      const box = svg.getBoundingClientRect();
      zoom(apart(event) / Math.max(apart(last), 1), (event.clientX + other.clientX) / 2 - box.left, (event.clientY + other.clientY) / 2 - box.top);
    } else {
      view.x -= dx / view.k;
      view.y -= dy / view.k;
      render();
    }
  });
  for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, (event) => fingers.delete(event.pointerId));
  svg.addEventListener("click", () => { if (!dragged && chosen) choose(null, false); });
  svg.addEventListener("wheel", (event) => {  // a page that is scrolled past the picture is not caught by it
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== svg) return;
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) { view.x += 60 * step[0] / view.k; view.y += 60 * step[1] / view.k; render(); }
    else if (event.key === "+" || event.key === "=") zoomMiddle(1.3);
    else if (event.key === "-") zoomMiddle(1 / 1.3);
    else if (event.key === "0" || event.key === "Home") fit(nodes);
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
  });
  for (const button of tools.querySelectorAll("button[data-zoom]")) {
    button.addEventListener("click", () => (button.dataset.zoom === "all" ? choose(null) : zoomMiddle(button.dataset.zoom === "in" ? 1.4 : 1 / 1.4)));
  }
  find.addEventListener("input", () => {
    wanted = fold(find.value.trim());
    const exact = nodes.find((node) => node.folded === wanted);
    if (exact) { wanted = ""; choose(exact); } else render();
  });
  find.addEventListener("keydown", (event) => {
    const first = nodes.find(isWanted);
    if (event.key === "Enter" && (first || chosen)) { event.preventDefault(); wanted = ""; if (first) choose(first); }
    if (event.key === "Escape") { find.value = wanted = ""; choose(null); }
  });
  area.addEventListener("choose", ({ detail: { node, event } }) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    choose(node);
  });
  new ResizeObserver(() => render()).observe(svg);
  const center = nodes.find((node) => node.id === area.dataset.center);
  choose(center ?? null, false);
  fit(nodes);
}

for (const area of document.querySelectorAll("[data-relations]")) drawRelations(area);
