// Sweeps: a reader selects a metric, the x axis, the lines and the panels. Points are means over
// seeds; bands and bars are their 95 % confidence intervals.

// Maximum rows of a table; the folder has all of them.
const ROWS = 2000;
// Maximum number of panels chosen by default.
const PANELS = 6;
const FAVOURITES = ["slowdown_p99", "goodput_mean_gbps"];

// A mean: the index of its value in each dimension, and the other fields by name.
const cellOf = ([place, mean, half, n, least, most, mark, away, few]) =>
  ({ place, mean, half, n, least, most, mark, away, few });

// The prefix of a lower bound, or of a percentile of few values, which is their maximum.
const signOf = (cell) => (cell.mark === "bound" ? "≥ " : cell.few ? "max " : "");

const distinctOf = (cells, dimension) =>
  [...new Set(cells.map((cell) => cell.place[dimension]))].sort((a, b) => a - b);

// Whether some line has points at two or more positions of `across`.
const isDrawn = (cells, across, line) => {
  const first = new Map();
  return cells.some(({ place }) => {
    const known = first.get(place[line]);
    if (known === undefined) first.set(place[line], place[across]);
    return known !== undefined && known !== place[across];
  });
};

// The dimension of lowest rank; null if none has a rank.
const firstBy = (dimensions, rank) => {
  const ranked = dimensions.map((d) => [rank(d), d]).filter(([of]) => of !== null);
  return ranked.length ? ranked.reduce((a, b) => (b[0] < a[0] ? b : a))[1] : null;
};

// Resolves the selection: the reader's choices as far as the metric allows, defaults for the rest.
const resolved = (sweep, choice) => {
  const metric = sweep.metrics[choice.metric];
  const cells = metric.cells.map(cellOf);
  const { dimensions } = sweep;
  const varying = dimensions.map((_, d) => d).filter((d) => distinctOf(cells, d).length > 1);
  const [label, size] = [dimensions.length - 2, dimensions.length - 1];
  const left = [...varying];
  const take = (role, otherwise) => {
    const own = choice[role];
    const fits = own === null || left.includes(own);
    const found = own !== undefined && fits ? own : otherwise();
    if (found !== null) left.splice(left.indexOf(found), 1);
    return found;
  };
  const x = take("x", () => firstBy(left, (d) =>
    dimensions[d].numbers.length ? 0 : d === size ? 1 : d === label ? 4
      : dimensions[d].protocols ? 3 : 2));
  const lines = take("lines", () => firstBy(left, (d) =>
    x === null || !isDrawn(cells, x, d) ? null : dimensions[d].protocols ? 0
      : dimensions[d].key ? 1 : d === label ? 2 : 3));
  const panels = take("panels", () => firstBy(left, (d) =>
    dimensions[d].key && isDrawn(cells, x, d) && distinctOf(cells, d).length <= PANELS ? 0 : null));
  // Other dimensions stay open ("all") if no two means of a line then coincide.
  const roles = [x, lines, panels].filter((d) => d !== null);
  const fits = (cell) => left.every((d) => (kept.get(d) ?? cell.place[d]) === cell.place[d]);
  const collide = () => {
    const places = cells.filter(fits).map((cell) => roles.map((d) => cell.place[d]).join());
    return new Set(places).size < places.length;
  };
  const isThere = (d) => {
    const value = choice.kept.get(d);
    return value === null || distinctOf(cells, d).includes(value);
  };
  const kept = new Map(left.filter(isThere).map((d) => [d, choice.kept.get(d)]));
  for (const d of left.filter((d) => !kept.has(d))) {
    if (x !== null && collide()) kept.set(d, distinctOf(cells.filter(fits), d)[0]);
  }
  return { metric, cells, chosen: cells.filter(fits), x, lines, panels, varying, left, kept };
};

// Text for a panel's value, and for a line, whose legend omits "label".
const placed = ({ title, values, protocols }, value) =>
  protocols ? values[value] : `${title} ${values[value]}`;
const named = (dimension, value) =>
  dimension.key ? placed(dimension, value) : dimension.values[value];

// Label of an axis: text, with the unit in parentheses.
const withUnit = ({ title, unit }) => {
  const names = { us: "µs", B: "bytes" };
  return title + (unit ? ` (${names[unit] ?? unit})` : "");
};

// Words for a metric or a dimension, with its name if another one has the same words. The values of
// dimensions have their units.
const wordsOf = (all, one) => {
  const words = (of) => (of.cells ? withUnit(of) : of.title);
  return all.some((other) => other !== one && words(other) === words(one))
    ? `${words(one)}: ${one.name}` : words(one);
};

// The dimension of lines. Without one, protocols on the x axis have one line each, in their
// colours.
const linesBy = (sweep, view) =>
  view.lines ?? (sweep.dimensions[view.x].protocols ? view.x : null);

// A line of means, in the order of the x axis.
const lineOf = (sweep, view, value, cells, nth, count) => {
  const x = sweep.dimensions[view.x];
  const own = value === null ? null : sweep.dimensions[linesBy(sweep, view)];
  const names = !x.numbers.length;
  // Lines are shifted sideways if the x axis has names.
  const shift = names && own !== x && count > 1 ? 0.5 * (nth / (count - 1) - 0.5) : 0;
  const at = (cell) => (names ? cell.place[view.x] + shift : x.numbers[cell.place[view.x]]);
  const ordered = [...cells].sort((a, b) => at(a) - at(b));
  const repeats = ordered.some((cell, i) => i > 0 && at(cell) === at(ordered[i - 1]));
  // Intervals end at the metric's limits.
  const { least, most } = view.metric;
  const lowOf = (cell) => Math.max(cell.mean - (cell.half ?? 0), Math.min(least, cell.mean));
  const positive = ordered.flatMap((cell) => [cell.mean, lowOf(cell)]).filter((low) => low > 0);
  // Intervals end at the bottom of a log axis.
  const floor = view.logY ? leastOf(positive) : -Infinity;
  const range = (cell) =>
    [Math.max(lowOf(cell), Math.min(floor, cell.mean)),
      Math.min(cell.mean + (cell.half ?? 0), Math.max(most ?? Infinity, cell.mean))];
  const details = (cell) =>
    (cell.half === null ? "" : ` ± ${digits(cell.half)}`) + `<br>n ${cell.n}` +
    (cell.mark === "bound" ? ", a lower bound" : cell.few ? ", a maximum" : "");
  return {
    name: own && own !== x ? named(own, value) : "",
    color: own ? own.colors[value] : sweep.dimensions[view.x].colors[0],
    marker: own ? own.markers[value] : "circle",
    dash: own ? own.dashes[value] : 0,
    points: ordered.map((cell) => [at(cell), cell.mean]),
    range: ordered.some((cell) => cell.half !== null) ? ordered.map(range) : undefined,
    details: ordered.map(details),
    bounds: ordered.map((cell) => signOf(cell) !== ""),
    apart: names || repeats,
    protocol: own?.protocols ? own.values[value] : undefined,
  };
};

// Ends of a numeric axis: slightly beyond the numbers.
const endsOf = ({ numbers }) => {
  const [least, most] = [leastOf(numbers), mostOf(numbers)];
  const margin = 0.04 * (most - least);
  return { from: least - margin, to: most + margin };
};

// The number of seeds, and the meaning of the bands.
const noteOf = (cells) => {
  const [least, most] = [leastOf, mostOf].map((of) => of(cells.map((cell) => cell.n)));
  const seeds = least === most ? most : `${least} to ${most}`;
  return most === 1 ? "n: 1 seed"
    : `n: ${seeds} seeds; bands, bars: 95 % confidence interval of the mean over the seeds`;
};

// A plot for each panel value, on one scale.
const plotsOf = (sweep, view) => {
  const x = sweep.dimensions[view.x];
  const of = (cells, d) => (d === null ? [null] : distinctOf(cells, d));
  const by = linesBy(sweep, view);
  const numbers = of(view.chosen, by);
  const plots = of(view.chosen, view.panels).map((panel) => {
    const cells = view.chosen.filter((c) => panel === null || c.place[view.panels] === panel);
    const fixed = [...view.kept, [view.panels, panel]].filter(([, value]) => value !== null);
    const where = fixed.map(([d, value]) => placed(sweep.dimensions[d], value));
    const lines = numbers.map((value, i) => {
      const own = cells.filter((cell) => value === null || cell.place[by] === value);
      return lineOf(sweep, view, value, own, i, numbers.length);
    });
    const better = view.metric.better ? `; ${view.metric.better} is better` : "";
    const title = `${view.metric.title} over ${x.title}`;
    return {
      title: [title, ...where].join(", "),
      x: x.numbers.length
        ? { label: withUnit(x), log: view.logX, ...endsOf(x) }
        : { label: x.title, names: x.values, from: -0.5, to: x.values.length - 0.5 },
      y: { label: withUnit(view.metric) + better, log: view.logY },
      lines: lines.filter((line) => line.points.length),
      note: noteOf(cells),
    };
  });
  const all = plots.flatMap((plot) => plot.lines).flatMap((line) =>
    [...line.points.map((p) => p[1]), ...(line.range ?? []).flat()]);
  for (const plot of plots) plot.y.beside = all;
  return plots;
};

const tableOf = (sweep, view) => {
  const columns = view.varying.map((d) => sweep.dimensions[d]);
  const unit = view.metric.unit ? ` ${view.metric.unit}` : "";
  const heads = [
    ...columns.map((of) => [wordsOf(sweep.dimensions, of), of.numbers.length > 0, of.name]),
    [`mean${unit}`, true], ["±", true], ["least", true], ["most", true], ["seeds", true],
    ...(sweep.baseline ? [[`from ${sweep.baseline}`, true], ["±", true], ["p (Holm)", true]] : []),
  ];
  const head = make("tr", {},
    ...heads.map(([text, number, title]) =>
      make("th", { class: number ? "n" : null, title: title ?? null }, text)));
  const number = (value, text) =>
    make("td", { class: "n", "data-number": value }, text ?? digits(value));
  const row = (cell) => {
    const places = view.varying.map((d) => [sweep.dimensions[d], cell.place[d]]);
    const protocol = places.find(([of]) => of.protocols);
    const mean = make("td", { class: "n", "data-number": cell.mean });
    const text = signOf(cell) + digits(cell.mean);
    mean.append(cell.mark === "best" ? make("b", {}, text) : text);
    return make("tr", { "data-protocol": protocol ? protocol[0].values[protocol[1]] : null },
      ...places.map(([of, value]) =>
        of.numbers.length ? number(of.numbers[value], of.values[value])
          : make("td", {}, of.values[value])),
      mean, cell.half === null ? make("td", { class: "n" }, "–") : number(cell.half, cutOf(cell)),
      number(cell.least), number(cell.most), number(cell.n),
      ...(sweep.baseline ? awayOf(cell) : []));
  };
  // The ends of an interval that is cut at the metric's limits.
  const cutOf = ({ mean, half }) => {
    const { least, most } = view.metric;
    if (mean - half >= least && mean + half <= (most ?? Infinity)) return undefined;
    const low = Math.min(Math.max(mean - half, least), mean);
    const high = Math.max(Math.min(mean + half, most ?? Infinity), mean);
    return `[${digits(low)}, ${digits(high)}]`;
  };
  // Paired difference of a mean from the baseline.
  const awayOf = (cell) => {
    const none = () => make("td", { class: "n" }, "–");
    if (!cell.away) return [none(), none(), none()];
    const [mean, half, n, p, significant] = cell.away;
    const text = (mean > 0 ? "+" : "") + digits(mean) + (n < cell.n ? ` (n = ${n})` : "");
    const first = make("td", { class: "n", "data-number": mean });
    first.append(significant ? make("b", {}, text) : text);
    return [first, half === null ? none() : number(half), 
      p === null ? none() : number(p, p < 0.001 ? "< 0.001" : undefined)];
  };
  const shown = view.cells.slice(0, ROWS);
  const table = make("table", {}, make("thead", {}, head),
    make("tbody", {}, ...shown.map(row)));
  beginTable(table);
  const parts = [make("div", { class: "wide" }, table)];
  const more = view.cells.length - shown.length;
  if (more) parts.push(make("p", { class: "quiet" }, `And ${more} more, in the folder.`));
  return parts;
};

// Whether values are positive and span more than a decade and a half.
const spansDecades = (cells) => {
  const means = cells.map((cell) => cell.mean);
  return leastOf(means) > 0 && mostOf(means) > 30 * leastOf(means);
};

// The selection in the page's address, by names; `number` distinguishes the sweeps of a page.
const ROLES = ["x", "lines", "panels"];
const NO_ROLE = "-";
const keyOfSweep = (number, key) => (Number(number) ? `${Number(number) + 1}.${key}` : key);

const rememberChoice = (number, { metrics, dimensions }, choice) => {
  const put = (key, value) =>
    remember(keyOfSweep(number, key), ...(value === undefined ? [] : [value]));
  put("metric", metrics[choice.metric].name);
  for (const role of ROLES) {
    const d = choice[role];
    put(role, d === null ? NO_ROLE : dimensions[d]?.name);
  }
  dimensions.forEach(({ name, values }, d) => {
    const value = choice.kept.get(d);
    put(`only.${name}`, value === null ? "" : values[value]);
  });
  for (const key of ["logX", "logY"]) put(key, choice[key]);
};

const recallChoice = (number, { metrics, dimensions }, choice) => {
  const get = (key) => address.get(keyOfSweep(number, key));
  const metric = metrics.findIndex(({ name }) => name === get("metric"));
  if (metric >= 0) choice.metric = metric;
  for (const role of ROLES) {
    const found = dimensions.findIndex(({ name }) => name === get(role));
    if (get(role) === NO_ROLE) choice[role] = null;
    else if (found >= 0) choice[role] = found;
  }
  dimensions.forEach(({ name, values }, d) => {
    const value = get(`only.${name}`);
    if (value === "") choice.kept.set(d, null);
    else if (values.includes(value)) choice.kept.set(d, values.indexOf(value));
  });
  for (const key of ["logX", "logY"]) if (get(key)) choice[key] = get(key) === "true";
};

const explore = (at, sweep, number) => {
  const controls = make("form", { class: "controls", "aria-label": "Selection" });
  const plots = make("div", { class: "plots" });
  const list = make("div");
  at.append(controls, plots, list);
  const favourites = FAVOURITES.map((name) => sweep.metrics.findIndex((m) => m.name === name));
  const choice = { metric: Math.max(favourites.find((i) => i >= 0) ?? 0, 0), kept: new Map() };
  recallChoice(number, sweep, choice);

  // Options are [value, text, name of a column]; the name of a select may be a column, too.
  const select = (name, options, value, act, text = name) => {
    const input = make("select", { name, onchange: () => {
      act(input.value === "" ? null : Number(input.value));
      show(true);
    } }, ...options.map(([key, shown, title]) =>
      make("option", { value: key ?? "", title: title ?? null }, shown)));
    input.value = value ?? "";
    controls.append(make("label", { title: text === name ? null : name }, `${text} `, input));
  };
  const tick = (name, key, value, possible) => {
    const input = make("input", { type: "checkbox", name, onchange: () => {
      choice[key] = input.checked;
      show(true);
    } });
    [input.checked, input.disabled] = [value, !possible];
    controls.append(make("label", {}, input, ` ${name}`));
  };

  const show = (now) => {
    if (now) rememberChoice(number, sweep, choice);
    const view = resolved(sweep, choice);
    const x = view.x === null ? null : sweep.dimensions[view.x];
    const means = view.chosen.map((cell) => cell.mean);
    // Zero has a place of its own on a log axis.
    const isLoggable = (values) => leastOf(values) >= 0 && mostOf(values) > 0;
    const [canX, canY] = [Boolean(x?.numbers.length) && isLoggable(x.numbers), leastOf(means) > 0];
    view.logX = canX && (choice.logX ?? x.log);
    view.logY = canY && (choice.logY ?? spansDecades(view.chosen));
    const focus = document.activeElement?.name;
    controls.replaceChildren();
    const { metrics, dimensions } = sweep;
    const quantities = metrics.map((m, i) => [i, wordsOf(metrics, m), m.name]);
    select("metric", quantities, choice.metric, (i) => {
      choice.metric = i;
      choice.logY = undefined;
    });
    if (x) {
      const words = (d) => wordsOf(dimensions, dimensions[d]);
      const name = (d) => [d, words(d), dimensions[d].name];
      const others = (...taken) => view.varying.filter((d) => !taken.includes(d)).map(name);
      select("x", view.varying.map(name), view.x, (d) => {
        Object.assign(choice, { x: d, logX: undefined });
        for (const role of ["lines", "panels"]) if (choice[role] === d) delete choice[role];
      });
      select("lines", [[null, "–"], ...others(view.x)], view.lines, (d) => {
        choice.lines = d;
        if (choice.panels === d) delete choice.panels;
      });
      select("panels", [[null, "–"], ...others(view.x, view.lines)], view.panels, (d) => {
        choice.panels = d;
      });
      for (const d of view.left) {
        const of = sweep.dimensions[d];
        const values = distinctOf(view.cells, d).map((value) => [value, of.values[value]]);
        select(of.name, [[null, "all"], ...values], view.kept.get(d), (value) => {
          choice.kept.set(d, value);
        }, words(d));
      }
      tick("log x", "logX", view.logX, canX);
      tick("log y", "logY", view.logY, canY);
    }
    for (const input of controls.elements) if (focus && input.name === focus) input.focus();
    // A single position cannot be plotted.
    const drawn = x ? plotsOf(sweep, view) : [];
    [...plots.children].slice(drawn.length).forEach(endFigure);
    drawn.forEach((plot, i) => {
      if (!plots.children[i]) {
        plots.append(make("figure", { class: "plot" }, make("figcaption")));
        beginFigure(plots.children[i], plot);
      }
      const figure = plots.children[i];
      figure.firstChild.textContent = figure.dataset.name = plot.title;
      const state = figures.get(figure);
      state.plot = plot;
      if (choice.shown !== view.lines) state.off.clear();
      if (now) draw(figure);
    });
    choice.shown = view.lines;
    const note = (text) => make("p", { class: "quiet" }, text);
    const notes = [];
    if (view.chosen.some((cell) => cell.mark === "bound")) {
      notes.push(note("≥, open markers: lower bounds: under some seed, too many messages are " +
        "unfinished for the percentile to be known, or a mean covers only the finished messages."));
    }
    if (view.chosen.some((cell) => cell.few)) {
      notes.push(note("max, open markers: under some seed, the 99th percentile of fewer than 100 " +
        "values, or the 99.9th of fewer than 1,000, is their maximum."));
    }
    list.replaceChildren(...notes, ...tableOf(sweep, view));
    filterRows();
  };
  if (sweep.metrics.length) show(false);
};

const beginSweeps = () => {
  for (const at of document.querySelectorAll("div.sweep")) {
    explore(at, data.sweeps[at.dataset.sweep], at.dataset.sweep);
  }
};
