// Changes the selection of a sweep's plot, and records what is drawn after each change.
async () => {
  dispatchEvent(new Event("beforeprint"));
  const at = document.querySelector("div.sweep");
  const figures = () => [...at.querySelectorAll("figure.plot")];
  const pause = (ms) => new Promise((then) => setTimeout(then, ms));
  const title = () => figures()[0].querySelector("figcaption").textContent;
  // A long title of an axis has several lines.
  const unit = () => {
    const text = figures()[0].querySelector(".ytitle");
    const lines = [...text.querySelectorAll("tspan")].map((line) => line.textContent);
    return lines.length ? lines.join(" ") : text.textContent;
  };
  const drawn = () => figures()[0].querySelector(".drawing");
  const control = (name) => at.querySelector(`.controls [name="${name}"]`);
  const choose = (name, text) => {
    const select = control(name);
    // Options show words; their titles are names of columns.
    select.selectedIndex = [...select.options]
      .findIndex((option) => (option.title || option.text) === text);
    select.dispatchEvent(new Event("change"));
  };
  const rows = () =>
    [...at.querySelectorAll("tbody tr")].filter((row) => !row.hidden).length;
  const observed = {};

  // Lines and bands: there are equally many.
  const { data } = drawn();
  const lines = data.filter((trace) => trace.fill !== "toself");
  const bands = data.filter((trace) => trace.fill === "toself");
  observed.first = { lines: {} };
  lines.forEach((line, i) => {
    const ys = bands[i].y;
    const band = line.y.map((_, k) => [ys[ys.length - 1 - k], ys[k]]);
    observed.first.lines[line.name] = { x: line.x, y: line.y, band };
  });

  observed.rows = rows();
  const head = [...at.querySelectorAll("th")].find((th) => th.textContent.startsWith("mean"));
  head.click();
  observed.sorted = [...at.querySelectorAll("tbody tr")]
    .map((row) => Number(row.cells[head.cellIndex].dataset.number));

  // Hide a protocol.
  const box = document.querySelector("#filters input[type=checkbox]");
  box.click();
  observed.hidden = [observed.rows, rows()];
  box.click();

  const heads = [...at.querySelectorAll("th[title]")].map((th) => [th.textContent, th.title]);
  observed.words = { heads, metric: control("metric").selectedOptions[0].text };
  choose("metric", "goodput_mean_gbps");
  const labels = [...control("label").options].map((option) => option.textContent);
  observed.goodput = {
    title: title(), labels, rows: rows(), unit: unit(),
  };
  choose("label", "short");
  observed.short = title();

  const scale = () => drawn().layout.yaxis.type;
  observed.log = [scale()];
  control("log y").click();
  observed.log.push(scale());
  control("log y").click();

  // Export as for a download.
  const { click } = HTMLAnchorElement.prototype;
  const { createObjectURL } = URL;
  let saved = null;
  HTMLAnchorElement.prototype.click = () => {};
  URL.createObjectURL = (content) => { saved = content; return ""; };
  [...figures()[0].querySelectorAll(".tools button")]
    .find((it) => it.textContent === "SVG").click();
  for (let i = 0; i < 600 && !saved; i++) await pause(50);
  Object.assign(URL, { createObjectURL });
  Object.assign(HTMLAnchorElement.prototype, { click });
  observed.svg = await saved.text();

  choose("x", "transport.protocol");
  choose("lines", "label");
  choose("panels", "–");
  choose("fabric.spines", "1");
  choose("traffic.short.load", "0.3");
  observed.names = {
    ticks: drawn().layout.xaxis.ticktext, panels: figures().length,
    lines: drawn().data.map((trace) => trace.name),
    bars: drawn().data.map((trace) => trace.error_y.array.length),
  };
  return observed;
}
