// Saves and copies plots: as values, as vectors, and as pixels.

const quoted = (value) => {
  const text = String(value ?? "");
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
};

// The displayed points of a plot, one per row, with the ends of their ranges if they have any.
const csvOf = ({ plot, ...state }) => {
  const shown = traces(plot, state).filter((trace) => trace.visible === true && !trace.fill);
  const xOf = (x) => (x === null ? null : plot.x.names?.[Math.round(x)] ?? x);
  const rows = shown.flatMap((trace) => {
    if (typeof trace.meta === "string") {
      const name = trace.text ? `${trace.name}: ${trace.text}` : trace.name;
      return trace.x.map((x, i) => [name, xOf(x), trace.y[i]]);
    }
    const line = plot.lines[trace.meta];
    const named = plot.lines.slice(0, trace.meta + 1).findLast((of) => of.name);
    const ranges = line.range && line.points.length === trace.x.length ? line.range : [];
    return trace.x.map((x, i) => [named?.name, xOf(x), trace.y[i], ...(ranges[i] ?? [])]);
  });
  const cells = (plot.cells ?? []).flatMap((row, i) =>
    row.map((value, j) => [plot.y.names[i], plot.x.names[j], value]));
  rows.push(...cells);
  const tail = plot.distribution && state.tail ? " that are larger" : "";
  const heads = ["line", plot.x.label, plot.y.label + tail];
  if (rows.some((row) => row.length > heads.length)) heads.push("range from", "range to");
  const line = (row) => `${heads.map((_, i) => quoted(row[i])).join(",")}\n`;
  return [heads, ...rows].map(line).join("");
};

// Pixels for each unit of length.
const SCALE = 2;

// The displayed plot with its title, in a width that does not depend on the window: SVG as text,
// PNG as Base64.
const imageOf = async (state, format) => {
  const { plot } = state;
  const { data, layout } = pictureOf({ ...state, width: WIDTH }, plot.title);
  const { width, height } = layout;
  return Plotly.toImage({ data, layout }, {
    format, width, height, scale: format === "png" ? SCALE : 1, imageDataOnly: true,
  });
};

// Each format: its type in a file and in the clipboard, and its content. Few programs paste SVG or
// CSV as such, but all paste text.
const FORMATS = {
  CSV: { inFile: "text/csv", inClipboard: "text/plain", contentOf: csvOf },
  SVG: { inFile: "image/svg+xml", inClipboard: "text/plain",
    contentOf: (state) => imageOf(state, "svg") },
  PNG: { inFile: "image/png", inClipboard: "image/png", contentOf: async (state) =>
    Uint8Array.from(atob(await imageOf(state, "png")), (letter) => letter.charCodeAt(0)) },
};

const blobOf = async (contentOf, state, type) => new Blob([await contentOf(state)], { type });

const save = async (figure, state, format) => {
  const { inFile, contentOf } = FORMATS[format];
  const href = URL.createObjectURL(await blobOf(contentOf, state, inFile));
  make("a", { href, download: `${figure.dataset.name}.${format.toLowerCase()}` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
};

// Copies a plot, and reports it in `report`. If the browser refuses, a button offers to save it.
const copy = async (figure, state, format, report) => {
  const { inClipboard, contentOf } = FORMATS[format];
  try {
    // The item takes a promise: some browsers permit a copy only directly after the click.
    const content = blobOf(contentOf, state, inClipboard);
    await navigator.clipboard.write([new ClipboardItem({ [inClipboard]: content })]);
    report.replaceChildren(`${format} copied`);
  } catch (error) {
    const isRefused = !navigator.clipboard || error.name === "NotAllowedError";
    const refused = "The browser does not let this page copy. ";
    report.replaceChildren(isRefused ? refused : `Copying failed: ${error.message}. `,
      tool(`Save ${format}`, "Save this plot to a file", null, () => save(figure, state, format)));
  }
};

const saveTools = (figure, state) => {
  const report = make("output");
  const group = (name, title, act) => make("span", { "data-act": name }, `${name} `,
    ...Object.keys(FORMATS).map((format) =>
      tool(format, `${title} as ${format}`, null, () => act(figure, state, format, report))));
  return [group("save", "Save this plot", save), group("copy", "Copy this plot", copy), report];
};
