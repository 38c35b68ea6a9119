// What is wrong with the page, in words, and how it looks. Run in the page; `media` is "screen" or "print".
(media) => {
  const faults = [];
  const overlap = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
  const inside = (a, b) =>
    a.left >= b.left - 0.5 && a.right <= b.right + 0.5 && a.top >= b.top - 0.5 && a.bottom <= b.bottom + 0.5;
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  // WCAG 2.
  const luminance = (color) => {
    const [r, g, b] = rgb(color).map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const legible = (where, text, color, ground) => {
    if (contrast(color, ground) < 4.5) faults.push(`${where}: contrast of "${text}" is ${contrast(color, ground).toFixed(1)}`);
  };

  const charts = [...document.querySelectorAll("svg")];
  for (const svg of charts) {
    const name = svg.querySelector("title").textContent;
    const box = svg.getBoundingClientRect();
    const frame = svg.querySelector(".frame").getBoundingClientRect();
    const marks = [...svg.querySelectorAll(".marks path, .marks polygon, .marks circle")].map((m) => m.getBoundingClientRect());
    const drawn = marks.filter((mark) => mark.width + mark.height > 1);
    if (!drawn.length) faults.push(`${name}: no marks`);
    const lines = [...svg.querySelectorAll(".marks path")].filter((line) => line.getTotalLength() > 1);
    if (lines.length < svg.querySelectorAll(".legend text").length) faults.push(`${name}: fewer lines than the legend names`);
    if (!drawn.every((mark) => inside(mark, box))) faults.push(`${name}: a mark lies outside the picture`);
    for (const part of svg.querySelectorAll(".legend > *")) {
      if (overlap(part.getBoundingClientRect(), frame)) faults.push(`${name}: the legend covers data`);
    }
    const paper = getComputedStyle(svg.querySelector(".paper")).fill;
    const texts = [...svg.querySelectorAll("text")];
    const boxes = texts.map((text) => text.getBoundingClientRect());
    texts.forEach((text, i) => {
      const said = text.textContent;
      if (!inside(boxes[i], box)) faults.push(`${name}: "${said}" lies outside the picture`);
      if (overlap(boxes[i], frame)) faults.push(`${name}: "${said}" covers data`);
      for (let j = 0; j < i; j++) {
        if (overlap(boxes[i], boxes[j])) faults.push(`${name}: "${said}" covers "${texts[j].textContent}"`);
      }
      legible(name, said, getComputedStyle(text).fill, paper);
    });
    const figure = svg.closest("figure");
    const saved = figure?.querySelector("a[download]")?.href ?? "";
    const copy = new DOMParser().parseFromString(decodeURIComponent(saved.slice(saved.indexOf(",") + 1)), "image/svg+xml");
    if (copy.querySelectorAll("svg > .marks > path").length !== svg.querySelectorAll(".marks > path").length) faults.push(`${name}: cannot be saved`);
    if (!figure || getComputedStyle(figure).breakInside !== "avoid") faults.push(`${name}: may be cut between pages`);
  }

  const ground = getComputedStyle(document.body).backgroundColor;
  for (const part of document.querySelectorAll("h1, h2, p, th, td, b, a")) {
    const style = getComputedStyle(part);
    if (style.display !== "none") legible("page", part.textContent, style.color, ground);
  }
  if (document.scripts.length) faults.push("page: there is a script");
  const wide = [document.documentElement, ...(media === "print" ? document.querySelectorAll(".wide") : [])];
  if (wide.some((part) => part.scrollWidth > part.clientWidth + 1)) faults.push("page: wider than the paper");

  const paper = charts.length ? getComputedStyle(charts[0].querySelector(".paper")).fill : ground;
  return {
    faults,
    titles: charts.map((svg) => svg.querySelector("title").textContent),
    brightness: [ground, paper].map(luminance),
  };
}
