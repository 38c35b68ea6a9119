// Filters: by protocol, by label, by size, and by verdict.

const filterRows = () => {
  for (const row of document.querySelectorAll("main tr[data-protocol], main tr[data-label]")) {
    const { protocol, label } = row.dataset;
    row.hidden = chosen.hidden.has(protocol) ||
      (chosen.label !== null && label !== undefined && label !== chosen.label);
  }
};

const filter = () => {
  filterRows();
  for (const [figure, { plot }] of figures) figure.hidden = isElsewhere(plot);
  redraw();
};

const colorOf = (protocol) => {
  const line = data.plots.flatMap((plot) => plot.lines).find((of) => of.protocol === protocol);
  const ofSweep = data.sweeps.flatMap((sweep) => sweep.dimensions)
    .filter((dimension) => dimension.protocols)
    .map((dimension) => dimension.colors[dimension.values.indexOf(protocol)]);
  return line?.color ?? ofSweep.find(Boolean);
};

const beginFilters = () => {
  const lines = data.plots.flatMap((plot) => plot.lines);
  const is = (value) => value !== undefined && value !== null;
  const distinct = (all) => [...new Set(all.filter(is))];
  const rows = (key) =>
    [...document.querySelectorAll(`main tr[data-${key}]`)].map((row) => row.dataset[key]);
  const protocols = distinct([...rows("protocol"), ...lines.map((line) => line.protocol)]);
  const parts = lines.flatMap((line) => line.parts ?? []);
  const labels = distinct([...rows("label"), ...lines.map((line) => line.label)])
    .filter((label) => label !== "");
  const sizes = distinct(parts.map((part) => part.size)).sort();
  const bar = make("form", { id: "filters", "aria-label": "Filters" });
  if (protocols.length > 1) {
    for (const protocol of protocols) {
      const box = make("input", { type: "checkbox", checked: "", onchange: () => {
        chosen.hidden[box.checked ? "delete" : "add"](protocol);
        filter();
      } });
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = tinted(colorOf(protocol) ?? "#808080", 0);
      bar.append(make("label", { "data-protocol": protocol }, box, swatch, protocol));
    }
  }
  const select = (name, key, options) => {
    const choices = [["", "all"], ...options]
      .map(([value, text]) => make("option", { value }, text));
    const input = make("select", { name, onchange: (event) => {
      const { value } = event.target;
      chosen[key] = value === "" ? null : key === "size" ? Number(value) : value;
      filter();
    } }, ...choices);
    bar.append(make("label", {}, `${name} `, input));
  };
  if (labels.length > 1) select("label", "label", labels.map((label) => [label, label]));
  if (sizes.length > 1) select("size", "size", sizes.map((size) => [size, data.sizes[size]]));
  if (bar.childElementCount) document.querySelector("h1").after(bar);
  for (const button of document.querySelectorAll("button[data-verdict]")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      const { verdict } = button.dataset;
      for (const same of document.querySelectorAll(`button[data-verdict=${verdict}]`)) {
        same.setAttribute("aria-pressed", shown);
      }
      for (const cell of document.querySelectorAll(`.claims td b.${verdict}`)) {
        cell.closest("tr").hidden = !shown;
      }
    });
  }
};
