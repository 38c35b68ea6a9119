// Filters: by protocol, by label, by size, and by verdict.

const filterRows = () => {
  for (const row of document.querySelectorAll("main tr[data-protocol], main tr[data-label]")) {
    const { protocol, label } = row.dataset;
    row.hidden = chosen.hidden.has(protocol) ||
      (chosen.label !== null && label !== undefined && label !== chosen.label);
  }
};

const filter = () => {
  remember("without", ...chosen.hidden);
  for (const key of ["label", "size"]) {
    remember(key, ...(chosen[key] === null ? [] : [chosen[key]]));
  }
  applyFilter();
};

const applyFilter = () => {
  filterRows();
  for (const [figure, { plot }] of figures) figure.hidden = isElsewhere(plot);
  redraw();
};

const colorOf = (protocol) => {
  const line = data.plots.flatMap((plot) => plot.lines).find((of) => of.protocol === protocol);
  const ofSweep = data.sweeps.flatMap((sweep) => sweep.dimensions)
    .filter((dimension) => dimension.protocols)
    .map((dimension) => dimension.colors[dimension.values.indexOf(protocol)]);
  // Lines of a label have the label's colour.
  const run = data.runs.find((of) => of.protocol === protocol);
  return run?.color ?? line?.color ?? ofSweep.find(Boolean);
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
      const box = make("input", { type: "checkbox", onchange: () => {
        chosen.hidden[box.checked ? "delete" : "add"](protocol);
        filter();
      } });
      box.checked = !address.getAll("without").includes(protocol);
      if (!box.checked) chosen.hidden.add(protocol);
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = tinted(colorOf(protocol) ?? "#808080", 0);
      bar.append(make("label", { "data-protocol": protocol }, box, swatch, protocol));
    }
  }
  const select = (name, key, options) => {
    const choices = [["", "all"], ...options]
      .map(([value, text]) => make("option", { value }, text));
    const take = (value) => {
      chosen[key] = value === "" ? null : key === "size" ? Number(value) : value;
    };
    const input = make("select", { name, onchange: () => {
      take(input.value);
      filter();
    } }, ...choices);
    const known = address.get(key) ?? "";
    if (options.some(([value]) => String(value) === known)) {
      input.value = known;
      take(known);
    }
    bar.append(make("label", {}, `${name} `, input));
  };
  if (labels.length > 1) select("label", "label", labels.map((label) => [label, label]));
  if (sizes.length > 1) select("size", "size", sizes.map((size) => [size, data.sizes[size]]));
  if (bar.childElementCount) document.querySelector("h1").after(bar);
  applyFilter();
  beginVerdicts();
};

const beginVerdicts = () => {
  const hidden = new Set(address.getAll("hide"));
  const apply = () => {
    for (const button of document.querySelectorAll("button[data-verdict]")) {
      const { verdict } = button.dataset;
      button.setAttribute("aria-pressed", !hidden.has(verdict));
      for (const cell of document.querySelectorAll(`.claims td b.${verdict}`)) {
        cell.closest("tr").hidden = hidden.has(verdict);
      }
    }
  };
  for (const button of document.querySelectorAll("button[data-verdict]")) {
    button.addEventListener("click", () => {
      const { verdict } = button.dataset;
      if (!hidden.delete(verdict)) hidden.add(verdict);
      remember("hide", ...hidden);
      apply();
    });
  }
  apply();
};
