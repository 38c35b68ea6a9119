// Saves and copies plots: as values, as vectors, and as pixels.

const quoted = (value) => {
  const text = String(value ?? "");
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
};

// The displayed points of a plot, one per row, with the ends of their ranges if they have any.
const csvOf = ({ plot, ...state }) => {
  const shown = traces(plot, state).filter((trace) => trace.visible === true && !trace.fill);
  const xOf = (x) => plot.x.names?.[Math.round(x)] ?? x;
  const rows = shown.flatMap((trace) => {
    if (trace.meta === "said") {
      return trace.x.map((x, i) => [trace.name, xOf(x), trace.y[i]]);
    }
    const line = plot.lines[trace.meta];
    const named = plot.lines.slice(0, trace.meta + 1).findLast((of) => of.name);
    const ranges = line.range && line.points.length === trace.x.length ? line.range : [];
    return trace.x.map((x, i) => [named?.name, xOf(x), trace.y[i], ...(ranges[i] ?? [])]);
  });
  const tail = plot.distribution && state.tail ? " that are larger" : "";
  const heads = ["line", plot.x.label, plot.y.label + tail];
  if (rows.some((row) => row.length > heads.length)) heads.push("range from", "range to");
  const line = (row) => `${heads.map((_, i) => quoted(row[i])).join(",")}\n`;
  return [heads, ...rows].map(line).join("");
};

// Pixels for each unit of length.
const SCALE = 2;

// The displayed plot with its title, as a data URL, in a width that does not depend on the window.
const imageOf = async (state, format) => {
  const { plot } = state;
  const { data, layout } = pictureOf({ ...state, width: WIDTH }, plot.title);
  const { width, height } = layout;
  return Plotly.toImage({ data, layout }, {
    format, width, height, scale: format === "png" ? SCALE : 1,
  });
};

const download = (figure, ending, href) =>
  make("a", { href, download: `${figure.dataset.name}.${ending}` }).click();

const SAVES = {
  CSV: ["Save the displayed points as CSV", async (figure, state) => {
    const url = URL.createObjectURL(new Blob([csvOf(state)], { type: "text/csv" }));
    download(figure, "csv", url);
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }],
  SVG: ["Save this plot as SVG", async (figure, state) =>
    download(figure, "svg", await imageOf(state, "svg"))],
  PNG: ["Save this plot as PNG", async (figure, state) =>
    download(figure, "png", await imageOf(state, "png"))],
  Copy: ["Copy this plot as PNG; save it if the browser does not permit that",
    async (figure, state) => {
      const url = await imageOf(state, "png");
      try {
        const bytes = Uint8Array.from(atob(url.split(",")[1]), (letter) => letter.charCodeAt(0));
        const blob = new Blob([bytes], { type: "image/png" });
        await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
      } catch {
        download(figure, "png", url);
      }
    }],
};

const saveTools = (figure, state) => Object.entries(SAVES).map(([name, [title, save]]) =>
  tool(name, title, null, () => save(figure, state)));
