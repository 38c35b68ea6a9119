// Details of a flow: its properties, possible links, window, and the queues on its path.

const runOf = (number) => data.runs.find((run) => run.run === number);

const byId = new Map(data.runs.map((run) => [run.run, new Map(run.flows.map((f) => [f.id, f]))]));

const flowOf = (run, id) => byId.get(run)?.get(id);

// The size class; null for an unlimited flow.
const sizeOf = (size) => {
  if (size === null || size === undefined) return null;
  const bounds = [1e3, 1e4, 1e5, 1e6, 1e7];
  return bounds.filter((bound) => bound <= size).length;
};

// Links on shortest paths between two nodes of a fabric, by number, in order of distance.
const shortest = (fabric, from, to) => {
  const number = (name) => fabric.nodes.findIndex((node) => node.name === name);
  const [start, end] = [number(from), number(to)];
  if (start < 0 || end < 0) return [];
  const distances = (root, [at, next]) => {
    const distance = new Map([[root, 0]]);
    let front = [root];
    while (front.length) {
      const found = [];
      for (const node of front) {
        for (const link of fabric.links) {
          if (link[at] === node && !distance.has(link[next])) {
            distance.set(link[next], distance.get(node) + 1);
            found.push(link[next]);
          }
        }
      }
      front = found;
    }
    return distance;
  };
  const [out, back] = [distances(start, [0, 1]), distances(end, [1, 0])];
  const whole = out.get(end);
  return fabric.links.map((_, i) => i)
    .filter((i) => out.get(fabric.links[i][0]) + 1 + back.get(fabric.links[i][1]) === whole)
    .sort((a, b) => out.get(fabric.links[a][0]) - out.get(fabric.links[b][0]));
};

const nameOf = (fabric, link) =>
  link.map((node) => fabric.nodes[node].name).join(" → ");

// A figure of lines over time, {name, points, color}.
const figureOf = (id, head, label, lines) => {
  const title = `${head}, flow ${id}`;
  const figure = make("figure", { class: "plot", "data-name": title },
    make("figcaption", {}, head));
  beginFigure(figure, { title, x: { label: "time (ms)" }, y: { label }, lines });
  return figure;
};

const QUEUE_COLORS = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#3388ff"];

// The queues on a flow's path during its lifetime, the longest first.
const queuesOf = (run, flow, way) => {
  const { times, queues } = run.carried;
  const from = flow.start_us / 1e3;
  const to = flow.fct_us === null ? Infinity : from + flow.fct_us / 1e3;
  // A short flow falls between samples; the nearest samples on both sides are included.
  const first = Math.max(0, times.findIndex((t) => t >= from) - 1);
  const beyond = times.findIndex((t) => t > to);
  const last = beyond < 0 ? times.length - 1 : beyond;
  const lines = way.filter((link) => queues[link]).map((link) => {
    const points = [];
    for (let i = first; i <= last; i++) points.push([times[i], queues[link][i]]);
    return { link, points, most: mostOf(points.map((p) => p[1])) };
  });
  return lines.sort((a, b) => b.most - a.most).slice(0, QUEUE_COLORS.length);
};

const panel = make("aside", { id: "flow", hidden: "", "aria-label": "A flow" });

const showFlow = (number, id) => {
  const [run, flow] = [runOf(number), flowOf(number, id)];
  if (!flow) return;
  hideFlow();
  const fabric = run.fabric === null ? null : data.fabrics[run.fabric];
  const way = fabric ? shortest(fabric, flow.src, flow.dst) : [];
  const facts = [
    ["run", run.title], ["protocol", flow.protocol], ["label", flow.label || "–"],
    ["from, to", `${flow.src} → ${flow.dst}`],
    ["size", bytes(flow.size_bytes)],
    ["delivered", bytes(flow.delivered_bytes)],
    ["retransmitted", bytes(flow.retransmitted_bytes)],
    ["submitted at", `${digits(flow.start_us)} µs`],
    ["completion time", flow.fct_us === null ? "unfinished" : `${digits(flow.fct_us)} µs`],
    ["slowdown", digits(flow.slowdown)],
    ["goodput", flow.goodput_gbps === null ? "–" : `${digits(flow.goodput_gbps)} Gbit/s`],
  ];
  if (way.length) {
    const names = way.slice(0, 8).map((i) => nameOf(fabric, fabric.links[i]));
    const more = way.length > 8 ? `, and ${way.length - 8} more` : "";
    facts.push(["possible links", names.join(", ") + more]);
  }
  const list = make("dl");
  for (const [key, value] of facts) list.append(make("dt", {}, key), make("dd", {}, value));
  const plots = [];
  if (flow.goodput) {
    const lines = [{ name: "goodput", points: flow.goodput, color: run.color }];
    plots.push(figureOf(id, "Goodput", "goodput (Gbit/s)", lines));
  }
  if (flow.window) {
    const lines = [{ name: "window", points: flow.window, color: run.color }];
    plots.push(figureOf(id, "Window", "window (KB)", lines));
  }
  const queues = way.length && run.carried.times.length ? queuesOf(run, flow, way) : [];
  if (queues.length) {
    const title = "Queues on its path during its lifetime";
    plots.push(figureOf(id, title, "queue (KB)", queues.map((line, i) => ({
      name: nameOf(fabric, fabric.links[line.link]), points: line.points, color: QUEUE_COLORS[i],
    }))));
  }
  const close = make("button", { type: "button", onclick: hideFlow }, "Close");
  panel.replaceChildren(close, make("h2", {}, `Flow ${id}`), list, ...plots);
  if (!plots.length) {
    panel.append(make("p", { class: "quiet" },
      "This flow was not sampled: set `timeseries` under `[output]` in the scenario."));
  }
  panel.hidden = false;
  plots.forEach(draw);
  markWay(number, way);
};

const hideFlow = () => {
  panel.querySelectorAll("figure").forEach(endFigure);
  panel.hidden = true;
  markWay(null, []);
};
