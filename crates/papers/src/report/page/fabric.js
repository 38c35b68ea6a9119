// The fabric: nodes in layers, links coloured by load, and a slider over time.

const COLORS = ["#c9c9c9", "#fdcc8a", "#fc8d59", "#d7301f", "#7f0000"];
const LAYER = 90;
const SIDE = 30;

// The colour of the scale for a share of its maximum.
const shade = (share) => {
  const at = Math.min(Math.max(share, 0), 1) * (COLORS.length - 1);
  const [low, part] = [Math.min(Math.floor(at), COLORS.length - 2), at % 1 || (at >= 4 ? 1 : 0)];
  const [a, b] = [channels(COLORS[low]), channels(COLORS[low + 1])];
  return `rgb(${a.map((c, i) => Math.round(c + (b[i] - c) * part)).join(",")})`;
};

const picture = { run: null, quantity: "used", sample: 0, way: { run: null, links: [] } };

// Values that colour the links, and the maximum of each scale.
const QUANTITIES = {
  used: { name: "utilisation", of: (c) => c.used.map((u) => (u === null ? null : 100 * u)),
    unit: "%", end: () => 100 },
  queue_mean: { name: "mean queue", of: (c) => c.queue_mean, unit: "KB", end: mostOf },
  queue_max: { name: "longest queue", of: (c) => c.queue_max, unit: "KB", end: mostOf },
  queue: { name: "queue over time", unit: "KB",
    of: (c) => c.used.map((_, i) => c.queues[i]?.[picture.sample] ?? 0),
    // One scale for all times.
    end: (_, c) => mostOf(Object.values(c.queues).map(mostOf)) },
};

const drawFabric = (at) => {
  const fabric = data.fabrics[picture.run.fabric];
  const width = 1100;
  // Space above the highest layer for arcs between its own nodes.
  const arc = (a, b) => (fabric.nodes[a].layer && fabric.nodes[a].layer === fabric.nodes[b].layer
    ? 0.1 * Math.abs(fabric.nodes[a].x - fabric.nodes[b].x) * (width - 2 * SIDE) : 0);
  const above = Math.max(0, ...fabric.links.map(([a, b]) => arc(a, b)) , 0);
  const dense = fabric.nodes.length > 60;
  // Space below for names of hosts, which are slanted by 30 degrees.
  const named = dense ? [] : fabric.nodes.filter((node) => !node.layer);
  const below = Math.max(30, ...named.map(({ name }) => measure.measureText(name).width / 2));
  const height = 2 * SIDE + LAYER * fabric.layers + below + above;
  const ground = height - SIDE - below;
  const place = ({ x, layer }) =>
    [SIDE + x * (width - 2 * SIDE), layer ? ground - layer * LAYER : ground + 20];
  const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  fabric.links.forEach(([a, b], i) => {
    const [from, to] = [place(fabric.nodes[a]), place(fabric.nodes[b])];
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const length = Math.hypot(dx, dy) || 1;
    // Each direction on its own side; within a layer, around the nodes between.
    const [nx, ny] = [-dy / length, dx / length];
    const side = fabric.nodes.length > 60 ? 0.8 : 2;
    const bend = fabric.nodes[a].layer === fabric.nodes[b].layer && length > 200 ? 0.2 * length : 0;
    const point = ([x, y]) => `${x + side * nx} ${y + side * ny}`;
    const middle = `${(from[0] + to[0]) / 2 + bend * nx} ${(from[1] + to[1]) / 2 + bend * ny}`;
    const path = makeSvg("path", {
      d: `M${point(from)} Q${middle} ${point(to)}`, class: "link", fill: "none", "data-link": i,
    });
    if (side < 1) path.style.strokeWidth = 1.6;
    path.append(makeSvg("title"));
    svg.append(path);
  });
  for (const node of fabric.nodes) {
    const [x, y] = place(node);
    const r = node.layer ? 6 : dense ? 2 : 4;
    svg.append(makeSvg("circle", { cx: x, cy: y, r, class: "node" }));
    if (dense && !node.layer) continue;
    const label = makeSvg("text", {
      x, y: node.layer ? y - 10 : y + 14, "text-anchor": node.layer ? "middle" : "end",
    });
    if (!node.layer) label.setAttribute("transform", `rotate(-30 ${x} ${y + 14})`);
    label.textContent = node.name;
    svg.append(label);
  }
  at.replaceChildren(svg);
  paint(at);
};

const paint = (at) => {
  const { carried, fabric: number } = picture.run;
  const fabric = data.fabrics[number];
  const quantity = QUANTITIES[picture.quantity];
  const values = quantity.of(carried);
  const end = quantity.end(values.filter((value) => value !== null), carried) || 1;
  const way = picture.way.run === picture.run.run ? picture.way.links : [];
  for (const path of at.querySelectorAll(".link")) {
    const i = Number(path.dataset.link);
    path.style.stroke = values[i] === null ? "transparent" : shade(values[i] / end);
    path.classList.toggle("path", way.includes(i));
    const name = `${nameOf(fabric, fabric.links[i])}, ${digits(fabric.rates[i])} Gbit/s`;
    const value = `${quantity.name} ${digits(values[i])} ${quantity.unit}`;
    path.firstChild.textContent = `${name}: ${value}`;
  }
  const figure = at.parentElement;
  figure.querySelector("output.end").textContent = `${digits(end)} ${quantity.unit}`;
  const slider = figure.querySelector("input[type=range]");
  slider.hidden = picture.quantity !== "queue";
  const time = figure.querySelector("output.time");
  time.textContent = slider.hidden ? "" : `at ${digits(carried.times[picture.sample])} ms`;
};

// Highlights the links that a flow may use, in its run.
const markWay = (run, links) => {
  picture.way = { run, links };
  const at = document.querySelector("figure.fabric .picture");
  if (!at) return;
  const shown = run === null ? undefined : data.runs.find((of) => of.run === run && of.carried);
  if (shown && shown !== picture.run) {
    document.querySelector("figure.fabric select.run").value = run;
    chooseRun(at, shown);
  } else {
    paint(at);
  }
};

const chooseRun = (at, run) => {
  picture.run = run;
  const { times } = run.carried;
  const slider = at.parentElement.querySelector("input[type=range]");
  slider.max = Math.max(times.length - 1, 0);
  picture.sample = Math.min(picture.sample, Number(slider.max));
  const over = at.parentElement.querySelector("option[value=queue]");
  over.disabled = !times.length;
  if (!times.length && picture.quantity === "queue") {
    picture.quantity = at.parentElement.querySelector("select.quantity").value = "used";
  }
  drawFabric(at);
};

const beginFabric = () => {
  const figure = document.querySelector("figure.fabric");
  const runs = data.runs.filter((run) => run.carried);
  if (!figure || !runs.length) return;
  const at = make("div", { class: "picture" });
  const runOptions = runs.map((run) => make("option", { value: run.run }, run.title));
  const quantities = Object.entries(QUANTITIES);
  const options = quantities.map(([value, { name }]) => make("option", { value }, name));
  const ofRun = make("select", { class: "run", onchange: (event) => {
    chooseRun(at, runs.find((run) => String(run.run) === event.target.value));
  } }, ...runOptions);
  const ofQuantity = make("select", { class: "quantity", onchange: (event) => {
    picture.quantity = event.target.value;
    paint(at);
  } }, ...options);
  const slider = make("input", { type: "range", min: 0, value: 0, hidden: "",
    "aria-label": "time", oninput: (event) => {
      picture.sample = Number(event.target.value);
      paint(at);
    } });
  const controls = make("div", { class: "controls" },
    make("label", {}, "run ", ofRun), make("label", {}, "colour ", ofQuantity), slider,
    make("output", { class: "time" }));
  const scale = make("p", { class: "quiet" }, "0", make("span", { class: "scale" }),
    make("output", { class: "end" }), " · Each direction of a link lies on its own side.");
  const fabric = data.fabrics[runs[0].fabric];
  if (fabric.hidden_hosts) scale.append(` ${fabric.hidden_hosts} hosts are left out.`);
  if (fabric.hidden_links) scale.append(` ${fabric.hidden_links} links less busy are left out.`);
  figure.append(controls, at, scale);
  chooseRun(at, runs[0]);
};
