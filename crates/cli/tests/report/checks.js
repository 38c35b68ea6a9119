// Returns the faults of the page as texts, and its look. Runs in the page; `media` is "screen" or
// "print".
(media) => {
  // All plots, not only visible ones.
  dispatchEvent(new Event("beforeprint"));
  const faults = [];
  const overlap = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const inside = (a, b) =>
    a.left >= b.left - 1 && a.right <= b.right + 1 &&
    a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  // WCAG 2.
  const luminance = (color) => {
    const [r, g, b] = rgb(color).map((x) =>
      x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const legible = (where, text, color, ground) => {
    const found = contrast(color, ground);
    if (found < 4.5) faults.push(`${where}: contrast of "${text}" is ${found.toFixed(1)}`);
  };
  const ground = getComputedStyle(document.body).backgroundColor;
  const boxOf = (part) => part.getBoundingClientRect();
  const valueOf = (label) => {
    const [, number, unit] = label.match(/^([\d.e-]+)([kMGT]?)$/) ?? [];
    return Number(number) * 1000 ** " kMGT".indexOf(unit || " ");
  };

  const plots = [...document.querySelectorAll("figure.plot")];
  for (const figure of plots) {
    const name = figure.querySelector("figcaption").textContent;
    const svg = figure.querySelector(".main-svg");
    if (!svg) {
      faults.push(`${name}: not drawn`);
      continue;
    }
    const place = figure.querySelector(".drawing");
    if (media === "screen" && place.scrollWidth > place.clientWidth + 1) {
      faults.push(`${name}: cut at the right`);
    }
    const [box, frame] = [boxOf(svg), boxOf(figure.querySelector(".nsewdrag"))];
    const marks = [...figure.querySelectorAll(".scatterlayer path")].map(boxOf);
    const drawn = marks.filter((mark) => mark.width + mark.height > 1);
    if (!drawn.length) faults.push(`${name}: no marks`);
    if (!drawn.every((mark) => inside(mark, box))) faults.push(`${name}: a mark lies outside`);
    const lines = [...figure.querySelectorAll(".scatterlayer .trace")];
    const shown = lines.filter((line) => boxOf(line).width + boxOf(line).height > 1);
    const legend = [...figure.querySelectorAll(".legend .traces")];
    if (shown.length < legend.length) faults.push(`${name}: fewer lines than the legend names`);
    for (const part of legend) {
      if (overlap(boxOf(part), frame)) faults.push(`${name}: the legend covers data`);
      if (!inside(boxOf(part), box)) faults.push(`${name}: the legend lies outside the picture`);
    }
    const texts = [...figure.querySelectorAll(".drawing text")].filter((text) => text.textContent);
    const boxes = texts.map(boxOf);
    texts.forEach((text, i) => {
      const content = text.textContent;
      if (!inside(boxes[i], box)) faults.push(`${name}: "${content}" lies outside the picture`);
      if (overlap(boxes[i], frame)) faults.push(`${name}: "${content}" covers data`);
      for (let j = 0; j < i; j++) {
        // Bounding boxes of rotated text are not significant.
        const isSlanted = (it) => /rotate\(-35/.test(it.getAttribute("transform"));
        if (![text, texts[j]].some(isSlanted) && overlap(boxes[i], boxes[j])) {
          faults.push(`${name}: "${content}" covers "${texts[j].textContent}"`);
        }
      }
      legible(name, content, getComputedStyle(text).fill, ground);
    });
    for (const [axis, end, sign] of [["x", "left", 1], ["y", "top", -1]]) {
      if (figure.querySelector(".drawing").layout[`${axis}axis`].type !== "log") continue;
      const ticks = [...figure.querySelectorAll(`.${axis}tick text`)]
        .map((text) => [sign * boxOf(text)[end], text.textContent]).sort((a, b) => a[0] - b[0]);
      const labels = ticks.map(([, label]) => label);
      if (!labels.every((label, i) => i === 0 || valueOf(labels[i - 1]) < valueOf(label))) {
        faults.push(`${name}: labels along an axis are ${labels.join(" ")}`);
      }
    }
    if (getComputedStyle(figure).breakInside !== "avoid") {
      faults.push(`${name}: may be cut between pages`);
    }
  }

  for (const picture of document.querySelectorAll(media === "screen" ? ".fabric svg" : "nothing")) {
    const scale = picture.getScreenCTM().a;
    const sizes = [...picture.querySelectorAll("text")].map((text) =>
      scale * parseFloat(getComputedStyle(text).fontSize));
    if (Math.min(...sizes) < 8) faults.push("fabric: names are smaller than 8 pixels");
    const [box, names] = [boxOf(picture), [...picture.querySelectorAll("text")].map(boxOf)];
    if (!names.every((name) => inside(name, box))) faults.push("fabric: a name is cut");
  }
  for (const part of document.querySelectorAll("h1, h2, figcaption, p, th, td, dt, b, nav a")) {
    const style = getComputedStyle(part);
    if (style.display !== "none") legible("page", part.textContent, style.color, ground);
  }
  // Its data, the library and its own script.
  if (document.scripts.length !== 3 || [...document.scripts].some((script) => script.src)) {
    faults.push("page: there is an external script");
  }
  const wide = [document.documentElement];
  if (media === "print") wide.push(...document.querySelectorAll(".wide"));
  if (wide.some((part) => part.scrollWidth > part.clientWidth + 1)) {
    faults.push("page: wider than the paper");
  }
  return {
    faults,
    titles: plots.map((figure) => figure.querySelector("figcaption").textContent),
    brightness: [luminance(ground)],
  };
}
