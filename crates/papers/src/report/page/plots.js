// Plots, drawn by Plotly when they scroll into view.

// Width of saved plots; on the screen, plots are as wide as their column, up to a limit.
const WIDTH = 540;
const WIDEST = 620;
// Width for a label of a log axis.
const TICK = 32;
const MARGIN = { l: 66, r: 24, t: 10, b: 50 };
// Height of the area inside the axes.
const HEIGHT = 270;
const ROW = 19;
// Height of a further line of a title.
const LINE = 15;
// Width of a legend entry besides its text.
const ENTRY = 54;
// Number of markers on a line with more points.
const MARKERS = 9;

// State of the filters: hidden protocols, and the selected label and size class (null for all).
const chosen = { hidden: new Set(), label: null, size: null };

// State of each figure: its plot, display, and the lines hidden by the legend.
const figures = new Map();

const measure = document.createElement("canvas").getContext("2d");
measure.font = "12px sans-serif";

// Whether figures are for paper. On paper, names are not abbreviated.
let onPaper = false;

// Wraps a text to lines of at most `most` pixels: after spaces, or after hyphens, slashes and the
// like of a word that is wider. Other words stay whole, and their line is wider.
const wrapped = (text, most) => {
  const fits = (part) => measure.measureText(part.trimEnd()).width <= most;
  const lines = [""];
  for (const word of text.split(/(?<= )/)) {
    const parts = fits(word) ? [word] : word.split(/(?<=[-/_=,:])/);
    for (const part of parts) {
      const last = lines[lines.length - 1];
      if (last && !fits(last + part)) lines.push(part);
      else lines[lines.length - 1] += part;
    }
  }
  return lines.map((line) => line.trimEnd()).join("<br>");
};

// Shortens a name to fit into a legend of this width: both ends are kept, because names differ
// there. On paper the name is wrapped instead.
const fitted = (name, width) => {
  const most = width - MARGIN.l - MARGIN.r - ENTRY;
  if (onPaper) return wrapped(name, most);
  let kept = name.length;
  const cut = () => `${name.slice(0, Math.ceil(kept / 2))}…${name.slice(-Math.floor(kept / 2))}`;
  let text = name;
  while (measure.measureText(text).width > most && kept > 8) {
    kept -= 2;
    text = cut();
  }
  return text;
};

// A line's points under the filters; null if it is hidden.
const pointsOf = (line, plot) => {
  if (line.protocol && chosen.hidden.has(line.protocol)) return null;
  if (line.label !== undefined && chosen.label !== null && line.label !== chosen.label) return null;
  if (chosen.size === null || !plot.lines.some((of) => of.parts?.length)) return line.points;
  return (line.parts ?? []).find((part) => part.size === chosen.size)?.points ?? null;
};

// Whether a plot has only labels other than the selected one.
const isElsewhere = (plot) => chosen.label !== null && plot.lines.length > 0 &&
  plot.lines.every((line) => line.label !== undefined && line.label !== chosen.label);

// Whether the filters keep a single message.
const isLeft = (flow) =>
  (chosen.label === null || flow?.label === chosen.label) &&
  (chosen.size === null || sizeOf(flow?.size_bytes) === chosen.size);

// Number of earlier named lines of the same colour in a plot.
const nthOf = (plot, number) => {
  const color = plot.lines[number]?.color;
  return plot.lines.slice(0, Math.max(number, 0)).filter((l) => l.name && l.color === color).length;
};

// A log axis has no zero: the last step extends to the largest value, which nothing exceeds.
const tailOf = (points) => {
  const above = points.filter((p) => p[1] > 0);
  const [last, end] = [above[above.length - 1], points[above.length]];
  return last && end ? [...above, [end[0], last[1]]] : above;
};

// Whether a named line has no value, and neither have the unnamed lines that belong to it.
const hasNoValue = ({ lines }, number) => {
  const next = lines.findIndex((line, i) => i > number && line.name);
  const group = lines.slice(number, next < 0 ? undefined : next);
  return Boolean(lines[number].name) && group.every((line) => !line.points.length);
};

const traces = (plot, state) => {
  const all = [];
  // Bands are drawn below all lines.
  const bands = [];
  let group = -1;
  plot.lines.forEach((line, number) => {
    if (line.name) group = number;
    let points = pointsOf(line, plot);
    let flows = line.flows?.ids.map((id) => flowOf(line.flows.run, id)) ?? [];
    if (!flows.some(Boolean)) flows = null;
    if (points && line.apart && flows) {
      const left = points.map((_, i) => i).filter((i) => isLeft(flows[i]));
      points = left.map((i) => points[i]);
      flows = left.map((i) => flows[i]);
    }
    // Plotly shows no legend for a line without a point.
    const isNone = points !== null && hasNoValue(plot, number);
    points = isNone ? [[null, null]] : points ?? [];
    const name = isNone ? `${line.name}: no value` : line.name;
    if (plot.distribution && !isNone) {
      points = state.tail ? tailOf(points) : points.map(([x, y]) => [x, 1 - y]);
    }
    const color = tinted(line.color, nthOf(plot, line.name ? number : group));
    const own = line.range && points === line.points ? line.range : null;
    const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])];
    const long = points.length > 2 * MARKERS;
    const marked = line.marker && (line.apart || !long || plot.distribution || line.bounds);
    all.push({
      type: "scatter", x: xs, y: ys, name: fitted(name, state.width), legendgroup: `g${group}`,
      showlegend: Boolean(line.name) && points.length > 0,
      visible: state.off.has(group) ? "legendonly" : true,
      mode: line.apart ? "markers" : marked ? "lines+markers" : "lines",
      line: {
        color, width: 1.7, dash: DASHES[line.dash % DASHES.length],
        shape: plot.distribution ? "hv" : "linear",
      },
      marker: {
        color, symbol: symbolOf(line), size: line.apart && flows ? 6 : 8,
        maxdisplayed: line.apart || line.bounds ? 0 : MARKERS,
      },
      customdata: flows, text: line.details,
      hoverinfo: line.name || flows || line.details ? "all" : "skip",
      hovertemplate: hoverOf(plot, line, flows),
      error_y: own && (line.apart || plot.x.names)
        ? { type: "data", symmetric: false, color, thickness: 1.2, width: 3,
          array: own.map((r, i) => r[1] - ys[i]), arrayminus: own.map((r, i) => ys[i] - r[0]) }
        : undefined,
      meta: number,
    });
    if (own && !line.apart) bands.push(bandOf(xs, own, color, group, state));
  });
  // Values of others are hollow, so that they differ from measured ones without colour.
  for (const mark of plot.said ?? []) {
    const [source, symbol] = mark.is_simulated
      ? ["another simulator", "square-open"] : [mark.source ?? "paper", "diamond-open"];
    const alike = plot.said.filter((of) => of.is_simulated === mark.is_simulated);
    // Marks of one claim have its name.
    const isAlone = alike.every((of) => of.name === mark.name);
    const name = isAlone ? `${source} (${mark.name})` : source;
    const x = mark.to === undefined ? [mark.x] : [mark.x, mark.to];
    const y = plot.distribution && !state.tail ? 1 - mark.y : mark.y;
    const color = tinted(mark.color, 0);
    all.push({
      type: "scatter", mode: "lines+markers", x, y: x.map(() => y), name,
      legendgroup: name, cliponaxis: false,
      showlegend: mark === alike[0],
      line: { color, width: 1.7, dash: "dot" },
      marker: { symbol, size: mark.is_simulated ? 10 : 12, color, line: { width: 2 } },
      hovertemplate:
        `${mark.name}: %{${plot.distribution ? "x" : "y"}:.3~g}, ${source}<extra></extra>`,
      visible: state.off.has(name) ? "legendonly" : true, meta: name,
      text: isAlone ? "" : mark.name,
    });
  }
  return [...bands, ...all];
};

// A lower bound has an open marker.
const symbolOf = (line) => {
  const symbol = line.marker ?? "circle";
  return line.bounds ? line.bounds.map((is) => (is ? `${symbol}-open` : symbol)) : symbol;
};

// A range at each point, drawn as a transparent band with an outline.
const bandOf = (xs, range, color, group, state) => ({
  type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip",
  line: { width: 0.7, color: faded(color, 0.6) },
  x: [...xs, ...xs.slice().reverse()],
  y: [...range.map((r) => r[1]), ...range.map((r) => r[0]).reverse()],
  fillcolor: faded(color, 0.12),
  legendgroup: `g${group}`, showlegend: false,
  visible: state.off.has(group) ? "legendonly" : true, meta: group,
});

const faded = (color, alpha) => color.replace("rgb", "rgba").replace(")", `,${alpha})`);

const escapedText = (text) =>
  text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%/g, "&#37;");

const hoverOf = (plot, line, flows) => {
  const name = escapedText(line.name || "");
  const ends = line.apart ? "%{customdata.src} to %{customdata.dst}, " : "";
  const more = flows ? `<br>${ends}click for more` : "";
  const details = line.details ? "%{text}" : "";
  const x = plot.x.names ? "" : `${escapedText(plot.x.label)}: %{x:.4~g}<br>`;
  return `${name}<br>${x}${escapedText(plot.y.label)}: %{y:.4~g}${details}${more}<extra></extra>`;
};

const leastOf = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const mostOf = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

// Ends of a log axis: slightly beyond the data.
const logRange = (values) => {
  const [least, most] = [leastOf(values), mostOf(values)].map(Math.log10);
  const margin = Math.max(0.03 * (most - least), 0.05);
  return [least - margin, most + margin];
};

// A short form of a round number: 0.01, 200, 5k, 10M.
const inShort = (value) => {
  const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [unit, name] = units.find(([least]) => value >= least) ?? [1, ""];
  return `${Number((value / unit).toPrecision(3))}${name}`;
};

const MINOR = { ticks: "outside", ticklen: 2, tickcolor: "#888" };

// Labels of a log axis: at powers of ten, at 2 and 5 times these if there is room, or evenly on a
// shorter axis. Plotly's own labels for 2 and 5 show only the digit.
const logTicks = ([from, to], room) => {
  if (to - from > 0.6) {
    const most = Math.floor(room / TICK);
    const step = Math.ceil((to - from) / Math.min(6, most));
    const [first, last] = [Math.floor(from), Math.ceil(to)];
    const powers = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    const times = (digits, powers) =>
      powers.flatMap((p) => digits.map((digit) => Number(`${digit}e${p}`)));
    const tickvals = to - from > Math.min(3, most / 3)
      ? times([1], powers.filter((p) => p % step === 0)) : times([1, 2, 5], powers);
    return {
      tickvals, ticktext: tickvals.map(inShort),
      minor: { ...MINOR, tickvals: times([1, 2, 3, 4, 5, 6, 7, 8, 9], powers) },
    };
  }
  const step = (10 ** to - 10 ** from) / 5;
  const power = 10 ** Math.floor(Math.log10(step));
  const dtick = `L${[1, 2, 5, 10].map((of) => of * power).find((of) => of >= step)}`;
  return { dtick, minor: MINOR };
};

const linesIn = (text) => text.split("<br>").length;

// Size of the titles of axes, in the unit of other texts: 14 and 12 pixels.
const TITLE = 14 / 12;

// Title of an axis, wrapped to `room` pixels.
const titleOf = (axis, room) =>
  wrapped(axis.label, room / TITLE).split("<br>").map(escapedText).join("<br>");

// Longest line of a name on an axis, in pixels.
const NAME = 112;
// Most lines of a level name.
const LEVEL = 3;
// With more names that do not fit below a plot, they stand beside it.
const SLANTED = 16;
// Height of a name beside a plot.
const BESIDE = 21;

const widthOf = (text) => mostOf(text.split("<br>").map((line) => measure.measureText(line).width));

// Names on an axis of `room` pixels, and their angle: level if they fit, else slanted or, in a
// matrix, vertical. Vertical names stand close together, so that few have room for a second line.
const namesOf = ({ names = [], isBeside }, room) => {
  const wrappedTo = (width) => names.map((name) => wrapped(name, width));
  if (isBeside) return { names, angle: 0 };
  const each = room / names.length - 8;
  const level = wrappedTo(Math.min(NAME, each));
  const fits = level.every((name) => widthOf(name) <= each && linesIn(name) <= LEVEL);
  if (fits) return { names: level, angle: 0 };
  return names.length <= SLANTED ? { names: wrappedTo(NAME), angle: 35 }
    : { names: wrappedTo(2 * NAME), angle: 90 };
};

// Height of names below an axis, beyond that of numbers.
const heightOf = ({ names, angle }) => {
  const [across, down] = [Math.sin, Math.cos].map((of) => of(angle * Math.PI / 180));
  const height = (name) => across * widthOf(name) + down * LINE * (linesIn(name) - 1);
  return Math.max(0, ...names.map(height));
};

// Colours of the largest and smallest cells of a matrix, in which black text is readable.
const CELL = "#3b83bd";
const LIGHTEST = 0.94;

// Cells of a matrix with their values: the darker, the larger.
const matrixOf = ({ cells }) => {
  const all = cells.flatMap((row, y) => row.map((value, x) => ({ x, y, value })))
    .filter(({ value }) => value !== null);
  const most = mostOf(all.map(({ value }) => value));
  const fill = (value) => mixed(CELL, LIGHTEST * (1 - Math.max(0, value / most)));
  return {
    shapes: all.map(({ x, y, value }) => ({
      type: "rect", x0: x - 0.5, x1: x + 0.5, y0: y - 0.5, y1: y + 0.5, line: { width: 0 },
      fillcolor: fill(value),
    })),
    annotations: all.map(({ x, y, value }) => ({
      x, y, text: value < 10 ? Number(value.toPrecision(1)) : value.toFixed(0), showarrow: false,
      font: { size: 10, color: "#000000" },
    })),
  };
};

// Ends of an axis, as Plotly's: slightly beyond the values, except at zero.
const rangeOf = (axis, log, values) => {
  const all = values.concat(axis.beside ?? []);
  const usable = all.filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (log) return usable.length ? logRange(usable) : undefined;
  const [least, most] = [Math.min(0, leastOf(usable)), Math.max(0, mostOf(usable))];
  const margin = 0.04 * (most - (axis.from ?? least));
  const from = axis.from ?? (least < 0 ? least - margin : 0);
  return [from, axis.to ?? (most > from ? most + margin : from + 1)];
};

const axisOf = (axis, log, values, title, room, { names, angle }) => {
  const shown = {
    title: { text: title, standoff: 8 }, type: log ? "log" : "linear",
    zeroline: false, showline: true, linecolor: "#888", mirror: true, ticks: "outside", ticklen: 4,
    tickcolor: "#888", gridcolor: "#ddd", exponentformat: "SI", automargin: true,
  };
  if (axis.names) {
    const ticktext = names.map((name) => name.split("<br>").map(escapedText).join("<br>"));
    Object.assign(shown, { tickvals: names.map((_, i) => i), ticktext, tickangle: -angle });
  }
  const range = rangeOf(axis, log, values);
  if (range) Object.assign(shown, { range }, log ? logTicks(range, room) : {});
  return shown;
};

// Values of the visible traces along an axis, with the ends of intervals. An interval that ends at
// zero because its half is wider than its value does not extend the axis.
const valuesOf = (all, key) => all.filter((trace) => trace.visible === true).flatMap((trace) => {
  const bars = trace[`error_${key}`];
  const ends = (at, i) => {
    const [from, to] = [at - bars.arrayminus[i], at + bars.array[i]];
    return from === 0 && to > 2 * at ? [from] : [from, to];
  };
  return bars ? trace[key].concat(trace[key].flatMap(ends)) : trace[key];
});

// Ends intervals at the end of their axis. Returns a trace with an arrow for each interval that is
// cut, and the text that states its end; null if there is none.
const cut = (plot, all, key) => {
  const axis = plot[key];
  const range = rangeOf(axis, axis.log, valuesOf(all, key));
  const end = axis.log && range ? 10 ** range[1] : range?.[1];
  const across = key === "x" ? "y" : "x";
  const arrows = [];
  for (const trace of all) {
    const bars = trace.visible === true && trace[`error_${key}`];
    if (!bars) continue;
    bars.array = bars.array.map((length, i) => {
      const at = trace[key][i];
      if (!(at + length > end)) return length;
      const of = plot[across].names?.[Math.round(trace[across][i])] ?? trace.name;
      arrows.push({ across: trace[across][i], text: `${of} to ${inShort(at + length)}`,
        color: bars.color });
      return end - at;
    });
  }
  if (!arrows.length) return null;
  const text = `Cut intervals (arrows): ${arrows.map((arrow) => arrow.text).join("; ")}`;
  const symbol = key === "x" ? "triangle-right" : "triangle-up";
  return { text, trace: {
    type: "scatter", mode: "markers", visible: true, showlegend: false, cliponaxis: false,
    [key]: arrows.map(() => end), [across]: arrows.map((arrow) => arrow.across),
    marker: { symbol, size: 11, color: arrows.map((arrow) => arrow.color) },
    text: arrows.map((arrow) => escapedText(arrow.text)),
    hovertemplate: "%{text}<extra></extra>",
  } };
};

// Whether the names of a plot's x axis stand beside the plot, and its values along its width.
const isTurned = ({ x, cells }, state) =>
  !cells && namesOf(x, state.width - MARGIN.l - MARGIN.r).angle === 90;

// A trace with x and y exchanged.
const turnedTrace = ({ x, y, error_y, hovertemplate, ...trace }) => ({
  ...trace, x: y, y: x, error_x: error_y,
  hovertemplate: hovertemplate?.replace(/%\{[xy]/g, (of) => (of === "%{x" ? "%{y" : "%{x")),
});

// Plotly's data and layout of a plot, with a note below the axis.
const drawingOf = (plot, state, note) => {
  let all = traces(plot, state);
  const turned = isTurned(plot, state);
  let { x, y } = plot;
  if (turned) {
    all = all.map(turnedTrace);
    // The first name is at the top.
    const names = x.names.map((name) => wrapped(name, 2 * NAME));
    [x, y] = [y, { ...x, names, isBeside: true, from: x.to, to: x.from }];
  }
  const cuts = cut({ x, y }, all, turned ? "x" : "y");
  const label = [x.label, note, cuts?.text].filter(Boolean).join(". ");
  const layout = layoutOf({ ...plot, x: { ...x, label }, y }, state, all);
  return { data: cuts ? [...all, cuts.trace] : all, layout };
};

const layoutOf = (plot, state, all) => {
  const named = all.filter((trace) => trace.showlegend).map((trace) => trace.name);
  const widest = Math.max(0, ...named.map(widthOf));
  const columns = Math.max(1, Math.floor((state.width - MARGIN.l - MARGIN.r) / (widest + ENTRY)));
  let rows = 0;
  for (let i = 0; i < named.length; i += columns) {
    rows += mostOf(named.slice(i, i + columns).map(linesIn));
  }
  const tail = plot.distribution && state.tail;
  const y = tail ? { ...plot.y, label: `${plot.y.label} that are larger`, to: undefined } : plot.y;
  const tall = y.isBeside
    ? Math.max(HEIGHT, BESIDE * linesIn(y.names.join("<br>"))) : HEIGHT;
  const yTitle = titleOf(y, tall);
  const yNames = namesOf(y, Infinity);
  const across = Math.max(0, ...yNames.names.map((name) => widthOf(name) - 28));
  const left = MARGIN.l + LINE * (linesIn(yTitle) - 1) + across;
  const room = state.width - left - MARGIN.r;
  const xTitle = titleOf(plot.x, room);
  const xNames = namesOf(plot.x, room);
  const bottom = MARGIN.b + LINE * (linesIn(xTitle) - 1) + heightOf(xNames);
  const matrix = plot.cells ? matrixOf(plot) : { shapes: [], annotations: [] };
  const legend = ROW * rows + 8;
  return {
    width: state.width, height: tall + MARGIN.t + bottom + legend, autosize: false,
    margin: { ...MARGIN, l: left, b: bottom + legend, autoexpand: false },
    font: { family: "sans-serif", size: 12, color: "#222" },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    xaxis: axisOf(plot.x, plot.x.log, valuesOf(all, "x"), xTitle, room, xNames),
    yaxis: axisOf(y, tail || plot.y.log, valuesOf(all, "y"), yTitle, tall, yNames),
    legend: {
      orientation: "h", xref: "container", x: MARGIN.l / state.width, xanchor: "left",
      yref: "container", y: 0, yanchor: "bottom",
      entrywidth: widest + 8, bgcolor: "rgba(0,0,0,0)", font: { size: 12 }, tracegroupgap: 0,
    },
    hovermode: "closest", dragmode: "zoom",
    annotations: matrix.annotations,
    shapes: (plot.bands ?? []).map(([x0, x1]) => ({
      type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1, layer: "below",
      line: { width: 0 }, fillcolor: "#888", opacity: 0.2,
    })).concat(matrix.shapes),
  };
};

// Dragging zooms and a double click resets, so no toolbar covers the data.
const CONFIG = { displayModeBar: false, responsive: false, showTips: false };

const draw = (figure) => {
  const state = figures.get(figure);
  if (!onPaper) state.width = Math.min(figure.clientWidth || WIDTH, WIDEST);
  const { data, layout } = drawingOf(state.plot, state);
  if (state.drawn) {
    Plotly.react(state.at, data, layout, CONFIG);
    return;
  }
  state.drawn = true;
  Plotly.newPlot(state.at, data, layout, CONFIG);
  state.at.on("plotly_legendclick", (event) => {
    const number = event.data[event.curveNumber].meta;
    if (!state.off.delete(number)) state.off.add(number);
    draw(figure);
    return false;
  });
  state.at.on("plotly_legenddoubleclick", (event) => {
    const number = event.data[event.curveNumber].meta;
    const others = state.plot.lines.map((_, i) => i).filter((i) => state.plot.lines[i].name);
    const alone = others.every((i) => i === number || state.off.has(i));
    state.off = new Set(alone ? [] : others.filter((i) => i !== number));
    draw(figure);
    return false;
  });
  state.at.on("plotly_click", (event) => {
    const point = event.points[0];
    const line = state.plot.lines[point.data.meta];
    if (line?.flows) {
      showFlow(line.flows.run, point.customdata?.id ?? line.flows.ids[0]);
    }
  });
};

const redraw = () => {
  for (const [figure, state] of figures) if (state.drawn) draw(figure);
};

const drawAll = () => {
  for (const [figure, state] of figures) if (!state.drawn) draw(figure);
};

// The displayed plot in ink on white, as Plotly's data and layout.
const pictureOf = (state, title) => {
  const drawing = drawingOf(state.plot, state, state.plot.note);
  const { layout } = drawing;
  if (title) {
    layout.title = { text: escapedText(title), font: { size: 13 }, x: 0.02, y: 0.98 };
    layout.margin.t += 26;
    layout.height += 26;
  }
  layout.paper_bgcolor = layout.plot_bgcolor = "#fff";
  return drawing;
};

const tool = (name, title, pressed, act) =>
  make("button", { type: "button", title, "aria-pressed": pressed, onclick: act }, name);

// Draws figures when they scroll into view.
const seen = new IntersectionObserver((entries) => {
  for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
    seen.unobserve(target);
    if (figures.get(target)?.drawn === false) draw(target);
  }
}, { rootMargin: "400px" });

// Adds a plot, its tools and its drawing area to a figure element.
const beginFigure = (figure, plot) => {
  const at = make("div", { class: "drawing" });
  const state = {
    plot, at, width: WIDTH, drawn: false, off: new Set(), tail: plot.distribution === "tail",
  };
  figures.set(figure, state);
  const tools = make("div", { class: "tools" });
  if (plot.distribution) {
    const button = tool("log tail", "Share of larger values on a log axis", state.tail, () => {
      state.tail = !state.tail;
      button.setAttribute("aria-pressed", state.tail);
      draw(figure);
    });
    tools.append(button);
  }
  tools.append(...saveTools(figure, state));
  figure.append(tools, at);
  seen.observe(figure);
};

const endFigure = (figure) => {
  seen.unobserve(figure);
  figures.delete(figure);
  figure.remove();
};

const beginPlots = () => {
  for (const figure of document.querySelectorAll("figure.plot[data-plot]")) {
    beginFigure(figure, data.plots[figure.dataset.plot]);
  }
  dark.addEventListener("change", redraw);
  addEventListener("resize", redraw);
  addEventListener("beforeprint", drawAll);
};
