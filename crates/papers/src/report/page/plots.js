// Plots, drawn by Plotly when they scroll into view.

// Width of saved plots; on the screen, plots are as wide as their column, up to a limit.
const WIDTH = 540;
const WIDEST = 620;
const MARGIN = { l: 66, r: 24, t: 10, b: 50 };
// Height of the area inside the axes.
const HEIGHT = 270;
const ROW = 19;
// Width of a legend entry besides its text.
const ENTRY = 54;
// Number of markers on a line with more points.
const MARKERS = 9;

// State of the filters: hidden protocols, and the selected label and size class (null for all).
const chosen = { hidden: new Set(), label: null, size: null };

// State of each figure: its plot, display, and the lines hidden by the legend.
const figures = new Map();

// Whether figures are for paper. On paper, names are not abbreviated.
let onPaper = false;

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
    // Colours of the palette are similar to some readers: those lines always have markers.
    const marked = line.marker && (line.apart || !long || plot.distribution || line.bounds ||
      !line.protocol);
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
  for (const mark of plot.paper_marks ?? []) {
    const [source, symbol] = mark.is_simulated
      ? ["another simulator", "square-open"] : [mark.source ?? "paper", "diamond-open"];
    const alike = plot.paper_marks.filter((of) => of.is_simulated === mark.is_simulated);
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
  return [...areasOf(plot, state), ...bands, ...all];
};

// Colours of areas on light and dark backgrounds.
const AREA = "#888888";

const isShown = (state, name) => (state.off.has(name) ? "legendonly" : true);

// The legend of shaded ranges, which layoutOf() draws, and the accepted ranges of claims.
const areasOf = (plot, state) => {
  const area = (name, alpha, x, y) => ({
    type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", x, y, name, meta: name,
    line: { width: 0, color: AREA }, fillcolor: faded(mixed(AREA, 0), alpha),
    legendgroup: name, showlegend: true, visible: isShown(state, name),
  });
  const found = [];
  if (plot.bands?.length) found.push(area(UP, 0.2, [null], [null]));
  if (plot.accepted?.length) {
    const box = ([at, least, most]) => [
      [-1, least], [-1, most], [1, most], [1, least], [-1, least],
    ].map(([side, value]) => [at + 0.2 * side, value]).concat([[null, null]]);
    const corners = plot.accepted.flatMap(box);
    found.push(area("accepted by the claim", 0.3, ...[0, 1].map((i) => corners.map((c) => c[i]))));
  }
  return found;
};

// Name of shaded ranges of x: only plots of circuits have them.
const UP = "the circuit is up";

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

const hoverOf = (plot, line, flows) => {
  const name = escapedText(line.name || "");
  const ends = line.apart ? "%{customdata.src} to %{customdata.dst}, " : "";
  const more = flows ? `<br>${ends}click for more` : "";
  const details = line.details ? "%{text}" : "";
  const x = plot.x.names ? "" : `${escapedText(plot.x.label)}: %{x:.4~g}<br>`;
  return `${name}<br>${x}${escapedText(plot.y.label)}: %{y:.4~g}${details}${more}<extra></extra>`;
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

// The place of zero on an axis of a plot, if it has one.
const zeroOf = (plot, state, all, key) => {
  const isLog = plot[key].log && !(plot.distribution && key === "y");
  const shown = all.filter((trace) => trace.visible === true && !trace.fill);
  return isLog ? placeOfZero(shown.flatMap((trace) => trace[key])) : null;
};

// Plotly's data and layout of a plot, with a note below the axis.
const drawingOf = (measured, state, note) => {
  const plot = inUnits(measured);
  let all = traces(plot, state);
  const turned = isTurned(plot, state);
  let { x, y } = plot;
  const zeros = ["x", "y"].map((key) => [key, zeroOf(plot, state, all, key)]);
  for (const [key, zero] of zeros.filter(([, zero]) => zero)) {
    all = withZeros(all, key, zero);
    if (key === "x") x = { ...x, zero };
    else y = { ...y, zero };
  }
  if (turned) {
    all = all.map(turnedTrace);
    // The first name is at the top.
    const names = x.names.map((name) => wrapped(name, 2 * NAME));
    [x, y] = [y, { ...x, names, isBeside: true, from: x.to, to: x.from }];
  }
  const cuts = cut({ x, y }, all, turned ? "x" : "y");
  const caption = [note, cuts?.text].filter(Boolean).join(". ");
  const layout = layoutOf({ ...plot, x, y, caption }, state, all);
  return { data: cuts ? [...all, cuts.trace] : all, layout };
};

const layoutOf = (plot, state, all) => {
  const named = all.filter((trace) => trace.showlegend).map((trace) => trace.name);
  const widest = Math.max(0, ...named.map(widthOf));
  const tail = plot.distribution && state.tail;
  const y = tail ? { ...plot.y, label: `${plot.y.label} that are larger`, to: undefined } : plot.y;
  const tall = y.isBeside
    ? Math.max(HEIGHT, BESIDE * linesIn(y.names.join("<br>"))) : HEIGHT;
  const yTitle = titleOf(y, tall);
  const yNames = namesOf(y, Infinity);
  const across = Math.max(0, ...yNames.names.map((name) => widthOf(name) - 28));
  const left = MARGIN.l + LINE * (linesIn(yTitle) - 1) + across;
  const room = state.width - left - MARGIN.r;
  // Plotly wraps a legend at the width of the area inside the axes.
  const columns = Math.max(1, Math.floor(room / (widest + ENTRY)));
  let rows = 0;
  for (let i = 0; i < named.length; i += columns) {
    rows += mostOf(named.slice(i, i + columns).map(linesIn));
  }
  const xTitle = titleOf(plot.x, room);
  const xNames = namesOf(plot.x, room);
  const above = MARGIN.b + LINE * (linesIn(xTitle) - 1) + heightOf(xNames) - (xTitle ? 0 : LINE);
  const caption = captionOf(plot.caption, state.width, above, left);
  const bottom = above + (caption ? CAPTION * linesIn(caption.text) + 4 : 0);
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
    annotations: caption ? [...matrix.annotations, caption] : matrix.annotations,
    shapes: (state.off.has(UP) ? [] : plot.bands ?? []).map(([x0, x1]) => ({
      type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1, layer: "below",
      line: { width: 0 }, fillcolor: "#888", opacity: 0.2,
    })).concat(matrix.shapes, ["x", "y"].filter((key) => ({ x: plot.x, y })[key].zero)
      .map((key) => breakOf(key, { x: plot.x, y }[key].zero))),
  };
};

// Height of a line of a caption.
const CAPTION = 14;

// The caption below the x axis' title, whose bottom is `above` pixels below the axis.
const captionOf = (text, width, above, left) => {
  if (!text) return null;
  const lines = wrapped(text, (width - MARGIN.l - MARGIN.r) * 12 / 11).split("<br>");
  return {
    text: lines.map(escapedText).join("<br>"), showarrow: false, align: "left",
    font: { size: 11 }, borderpad: 0, borderwidth: 0,
    xref: "paper", x: 0, xanchor: "left", xshift: MARGIN.l - left,
    yref: "paper", y: 0, yanchor: "top", yshift: -above + 4,
  };
};

// Dragging zooms and a double click resets, so no toolbar covers the data.
const CONFIG = { displayModeBar: false, responsive: false, showTips: false };

const draw = (figure) => {
  const state = figures.get(figure);
  if (!onPaper) state.width = Math.min(figure.clientWidth || WIDTH, WIDEST);
  const { data, layout } = drawingOf(state.plot, state);
  state.isStale = false;
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

// Draws figures again. Those out of view wait until they scroll into view or the page is printed:
// Plotly takes a tenth of a second for each, and a page has hundreds.
const redraw = () => {
  for (const [figure, state] of figures) {
    if (state.isInView && !figure.hidden) draw(figure);
    else state.isStale = true;
  }
};

const drawAll = () => {
  for (const [figure, state] of figures) if (state.isStale) draw(figure);
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
  for (const { target, isIntersecting } of entries.filter((entry) => figures.has(entry.target))) {
    const state = figures.get(target);
    state.isInView = isIntersecting;
    if (isIntersecting && state.isStale) draw(target);
  }
}, { rootMargin: "400px" });

// Adds a plot, its tools and its drawing area to a figure element.
const beginFigure = (figure, plot) => {
  const at = make("div", { class: "drawing" });
  const state = {
    plot, at, width: WIDTH, drawn: false, isStale: true, isInView: false, off: new Set(),
    tail: plot.distribution === "tail",
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
