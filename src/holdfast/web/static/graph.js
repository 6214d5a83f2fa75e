// Draws the graph of a run: laid out by dagre, as SVG with attributes alone.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 46;
const LONGEST = 34; // characters of a name

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

function layOut({ nodes, edges }) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 28, ranksep: 30, edgesep: 14, marginx: 4, marginy: 4 });
  for (const node of nodes) {
    const step = node.kind === "step";
    const width = step ? Math.max(120, 34 + 7.7 * short(node.name).length, 34 + 6.2 * node.told.length) : 40 + 7.7 * node.name.length;
    graph.setNode(node.id, { ...node, width, height: step ? HEIGHT : 30 });
  }
  edges.forEach((edge, index) => {
    if (!graph.hasNode(edge.source) || !graph.hasNode(edge.target)) return;
    const label = edge.times > 1 ? `${edge.times}×` : "";
    graph.setEdge(edge.source, edge.target, { ...edge, label, width: label ? 10 + 8 * label.length : 0, height: label ? 14 : 0, labelpos: "c" }, String(index));
  });
  dagre.layout(graph);
  return graph;
}

function way(points) {
  const [first, ...rest] = points;
  let path = `M${first.x} ${first.y}`;
  for (let at = 0; at < rest.length - 1; at += 1) {
    const [here, next] = [rest[at], rest[at + 1]];
    const last = at === rest.length - 2;
    const end = last ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${here.x} ${here.y} ${end.x} ${end.y}`;
  }
  if (rest.length === 1) path += `L${rest[0].x} ${rest[0].y}`;
  return path;
}

function drawWay(edge) {
  const went = edge.times > 0;
  const classes = ["way", went && "went", edge.decided && "decided"].filter(Boolean).join(" ");
  return element("path", { class: classes, d: way(edge.points), "marker-end": `url(#${went ? "tip-went" : "tip"})` });
}

function drawCount(edge) {
  return element("text", { class: "count", x: edge.x, y: edge.y + 4, "text-anchor": "middle" }, edge.label);
}

function drawNode(node) {
  const [left, top] = [node.x - node.width / 2, node.y - node.height / 2];
  if (node.kind !== "step") {
    return element(
      "g",
      {},
      element("rect", { class: "end-box", x: left, y: top, width: node.width, height: node.height, rx: node.height / 2 }),
      element("text", { class: "told", x: node.x, y: node.y + 4, "text-anchor": "middle" }, node.name),
    );
  }
  const parts = [
    element("rect", { class: "box", x: left, y: top, width: node.width, height: node.height, rx: 7 }),
    element("rect", { class: "mark", x: left + 8, y: top + 9, width: 4, height: node.height - 18, rx: 2 }),
    element("text", { x: left + 20, y: top + 20 }, short(node.name)),
    element("text", { class: "told", x: left + 20, y: top + 36 }, node.told),
    element("title", {}, `${node.name}: ${node.status}`),
  ];
  const label = `${node.name}, ${node.status}${node.told === node.status ? "" : `, ${node.told}`}`;
  if (node.href) return element("a", { href: node.href, class: node.chip, "aria-label": label }, ...parts);
  return element("g", { class: node.chip, role: "img", "aria-label": label }, ...parts);
}

function tip(id) {
  const shape = element("path", { class: id, d: "M0 0L8 4L0 8z" });
  return element("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" }, shape);
}

function draw() {
  const place = document.getElementById("graph");
  if (!place || place.dataset.drawn === place.dataset.graph) return;
  place.dataset.drawn = place.dataset.graph;
  const graph = layOut(JSON.parse(place.dataset.graph));
  const { width, height } = graph.graph();
  const svg = element("svg", { width: Math.ceil(width), height: Math.ceil(height), viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Graph of the run" });
  svg.append(element("defs", {}, tip("tip"), tip("tip-went")));
  const edges = graph.edges().map((edge) => graph.edge(edge));
  svg.append(...edges.map(drawWay));
  svg.append(...edges.filter((edge) => edge.label).map(drawCount));
  for (const id of graph.nodes()) svg.append(drawNode(graph.node(id)));
  const { scrollLeft, scrollTop } = place;
  place.replaceChildren(svg);
  place.scrollTo(scrollLeft, scrollTop);
}

document.addEventListener("holdfast:run", draw);
draw();
