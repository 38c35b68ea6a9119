// Axes of plots: their units, ranges, labels and titles.

// Width for a label of a log axis.
const TICK = 32;
// Height of a further line of a title.
const LINE = 15;

const measure = document.createElement("canvas").getContext("2d");
measure.font = "12px sans-serif";

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

const escapedText = (text) =>
  text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%/g, "&#37;");

const leastOf = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const mostOf = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

// Units of a quantity, each a thousand times the one before it.
const UNITS = [
  ["ns", "µs", "ms", "s"],
  ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"],
  ["B", "KB", "MB", "GB", "TB"],
];
// Bounds of the largest number on an axis. Beyond them, another unit gives shorter numbers.
const SMALL = 0.5;
const LARGE = 5000;

// The axis in the unit that gives its values the shortest numbers, and the factor of the values. On
// a log axis, the smallest value decides for a larger unit.
const scaled = (axis, values) => {
  const pattern = /\((ns|us|µs|ms|s|[kMGT]?bit\/s|[KMGT]?B)(?=\)| a )/g;
  const found = [...axis.label.matchAll(pattern)].at(-1);
  const unit = found?.[1].replace("us", "µs");
  const units = UNITS.find((all) => all.includes(unit));
  const sizes = values.map(Math.abs).filter((size) => size > 0 && Number.isFinite(size));
  if (!units || axis.names || !sizes.length) return { axis, by: 1 };
  const most = mostOf(sizes);
  const least = axis.log ? leastOf(sizes) : most;
  let [at, by] = [units.indexOf(unit), 1];
  for (; most * by < SMALL && at > 0; at--) by *= 1000;
  for (; least * by >= LARGE && at < units.length - 1; at++) by /= 1000;
  if (by === 1) return { axis, by };
  const [start, end] = [found.index + 1, found.index + found[0].length];
  const label = axis.label.slice(0, start) + units[at] + axis.label.slice(end);
  const times = (value) => (value === undefined || value === null ? value : by * value);
  return { by, axis: {
    ...axis, label, from: times(axis.from), to: times(axis.to), beside: axis.beside?.map(times),
  } };
};

// A plot in the units of its values, for each plot.
const inUnitsOf = new WeakMap();

const inUnits = (plot) => {
  if (plot.cells) return plot;
  if (!inUnitsOf.has(plot)) inUnitsOf.set(plot, rescaled(plot));
  return inUnitsOf.get(plot);
};

const rescaled = (plot) => {
  const marks = plot.paper_marks ?? [];
  const along = (key, i) => scaled(plot[key], [
    ...plot.lines.flatMap((line) => line.points.map((point) => point[i])),
    ...marks.map((mark) => mark[key]), plot[key].from, plot[key].to, ...(plot[key].beside ?? []),
  ].filter((value) => value !== undefined && value !== null));
  const [{ axis: x, by: byX }, { axis: y, by: byY }] = [along("x", 0), along("y", 1)];
  if (byX === 1 && byY === 1) return plot;
  const points = (all) => all.map(([at, value]) => [byX * at, byY * value]);
  const ends = (all, by) => all?.map((pair) => pair.map((end) => by * end));
  return {
    ...plot, x, y, bands: ends(plot.bands, byX),
    accepted: plot.accepted?.map(([at, least, most]) => [byX * at, byY * least, byY * most]),
    lines: plot.lines.map((line) => ({
      ...line, points: points(line.points), range: ends(line.range, byY),
      parts: line.parts?.map((part) => ({ ...part, points: points(part.points) })),
    })),
    paper_marks: marks.map((mark) => ({
      ...mark, x: byX * mark.x, y: byY * mark.y,
      ...(mark.to === undefined ? {} : { to: byX * mark.to }),
    })),
  };
};

// The place of zero on a log axis, beside the least positive value; null if no value is zero.
const placeOfZero = (values) => {
  const positive = values.filter((value) => value > 0 && Number.isFinite(value));
  if (!positive.length || !values.includes(0)) return null;
  const [least, most] = [leastOf(positive), mostOf(positive)];
  return { at: least / 10 ** Math.max(0.3, 0.12 * Math.log10(most / least)), least };
};

// A trace reduced to some of its points.
const subset = (trace, kept) => {
  const pick = (of) => (Array.isArray(of) ? kept.map((i) => of[i]) : of);
  const { marker, error_y: bars } = trace;
  return {
    ...trace, ...Object.fromEntries(["x", "y", "text", "customdata", "hovertemplate"]
      .filter((key) => key in trace).map((key) => [key, pick(trace[key])])),
    // Plotly refuses keys without a value.
    ...(marker ? { marker: { ...marker, symbol: pick(marker.symbol) } } : {}),
    ...(bars ? { error_y: { ...bars, array: pick(bars.array), arrayminus: pick(bars.arrayminus) } }
      : {}),
  };
};

const hoverOfZero = (template, key) =>
  template?.replace(new RegExp(`%\\{${key}:[^}]*\\}`, "g"), "0");

// Puts zeros of a log axis at their place. Along x, they become markers without a line: the axis
// has no scale between zero and the next value.
const withZeros = (all, key, zero) => all.flatMap((trace) => {
  const isZero = trace[key].map((value) => value === 0);
  if (trace.visible !== true || !isZero.includes(true)) return [trace];
  const [kept, zeros] = [false, true].map((is) =>
    isZero.map((_, i) => i).filter((i) => isZero[i] === is));
  if (key === "x") {
    const rest = subset(trace, kept);
    if (trace.fill) return [rest];
    const own = subset(trace, zeros);
    own.x = zeros.map(() => zero.at);
    own.mode = "markers";
    own.hovertemplate = hoverOfZero(trace.hovertemplate, "x");
    if (!kept.length) return [own];
    return [rest, { ...own, showlegend: false }];
  }
  const { error_y: bars, hovertemplate: hover } = trace;
  const moved = bars && {
    ...bars,
    array: bars.array.map((length, i) => (isZero[i] ? Math.max(0, length - zero.at) : length)),
    arrayminus: bars.arrayminus.map((length, i) => (isZero[i] ? 0 : length)),
  };
  return [{
    ...trace, y: trace.y.map((value, i) => (isZero[i] ? zero.at : value)), error_y: moved,
    hovertemplate: hover && isZero.map((is) => (is ? hoverOfZero(hover, "y") : hover)),
  }];
});

// The line between zero and the other values of a log axis.
const breakOf = (key, { at, least }) => {
  const [across, middle] = [key === "x" ? "y" : "x", Math.sqrt(at * least)];
  return {
    type: "line", [`${key}ref`]: key, [`${across}ref`]: "paper", layer: "below",
    [`${key}0`]: middle, [`${key}1`]: middle, [`${across}0`]: 0, [`${across}1`]: 1,
    line: { color: "#888", width: 1, dash: "dot" },
  };
};

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
// shorter axis. Plotly's own labels for 2 and 5 show only the digit. Zero has a label, too.
const logTicks = ([from, to], room, zero) => {
  if (zero) {
    const rest = Math.log10(zero.least) - 0.02;
    const { tickvals, minor, dtick } = logTicks([rest, to], room);
    const step = dtick && Number(dtick.slice(1));
    const count = step ? Math.floor(10 ** to / step) : 0;
    const found = (tickvals ?? Array.from({ length: count }, (_, i) => step * (i + 1)))
      .filter((value) => value >= 10 ** rest);
    return {
      tickvals: [zero.at, ...found], ticktext: ["0", ...found.map(inShort)],
      minor: { ...minor, ...(minor.tickvals
        ? { tickvals: minor.tickvals.filter((value) => value >= 10 ** rest) } : {}) },
    };
  }
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
  if (range) Object.assign(shown, { range }, log ? logTicks(range, room, axis.zero) : {});
  return shown;
};
