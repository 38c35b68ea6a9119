// All figures one by one, in the width of a paper's column or page: as sheets, and as text.

// With this many pixels per inch, text of 12 px is 7.2 points high.
const DENSITY = 120;

// Properties of styles that become attributes, with the values that need no attribute.
const PROPERTIES = {
  "fill": [], "fill-opacity": ["1"], "fill-rule": ["nonzero"], "stroke": ["none"],
  "stroke-opacity": ["1"], "stroke-width": ["1"], "stroke-dasharray": ["none"],
  "stroke-miterlimit": [], "opacity": ["1"], "font-family": ["sans-serif"], "font-size": ["12"],
  "font-weight": ["normal", "400"], "font-style": ["normal"], "text-anchor": ["start"],
  "display": ["inline"], "visibility": ["visible"],
};

// Colours on a dark background of paper, ink and grid. Lines have `onDark`.
// Black text stays: it is in cells that stay light.
const DARK = {
  "#ffffff": "#16181c", "#222222": "#dddddd", "#dddddd": "#3a3d42", "#000000": "#000000",
};

const hexOf = (color) =>
  color.replace(/rgb\((\d+), ?(\d+), ?(\d+)\)/g, (_, ...parts) =>
    `#${parts.slice(0, 3).map((part) => Number(part).toString(16).padStart(2, "0")).join("")}`);

// Whether nothing of an element is visible.
const isEmpty = (element) => {
  const is = (key, ...values) => values.includes(element.getAttribute(key));
  const unpainted = is("fill", "none") || is("fill-opacity", "0");
  const unstroked = is("stroke", null) || is("stroke-opacity", "0") || is("stroke-width", "0");
  switch (element.localName) {
    case "g": case "defs": return !element.firstElementChild;
    case "clipPath": return !element.id;
    case "path": return !element.getAttribute("d") || (unpainted && unstroked);
    case "rect": return unpainted && unstroked && !element.closest("clipPath");
    default: return false;
  }
};

// Removes content of Plotly's SVG that does not change the picture: it is half of the file.
// `prefix` makes names unique among the figures of a page; Plotly's names are random.
const simplify = (svg, prefix) => {
  const used = [...new Set(svg.outerHTML.match(/(?<=url\()[^)]*(?=\))/g))]
    .map((name) => name.replace(/&quot;|["']/g, "").slice(1));
  const named = (name) => `${prefix}-${used.indexOf(name)}`;
  // Children first: an element may become empty.
  for (const element of [...svg.querySelectorAll("*")].reverse()) {
    for (const declaration of (element.getAttribute("style") ?? "").split(";")) {
      const [key, value] = declaration.split(/:(.*)/).map((part) => part.trim());
      const short = hexOf(value ?? "").replace(/(\d)px/g, "$1");
      if (PROPERTIES[key] && !PROPERTIES[key].includes(short)) element.setAttribute(key, short);
    }
    for (const { name, value } of [...element.attributes]) {
      const kept = value.replace(/-?\d+\.\d{3,}/g, (number) => Number(Number(number).toFixed(2)))
        .replace(/url\(["']?#([^)"']*)["']?\)/, (_, of) => `url(#${named(of)})`);
      if (name === "id" && used.includes(value)) element.setAttribute(name, named(value));
      else if (/^(id|class|style|pointer-events|data-.*)$/.test(name) || !value) {
        element.removeAttribute(name);
      } else if (kept !== value) element.setAttribute(name, kept);
    }
    if (isEmpty(element)) element.remove();
    else if (element.localName === "g" && !element.attributes.length) {
      element.replaceWith(...element.childNodes);
    }
  }
  ["class", "style", "xmlns:xlink"].forEach((name) => svg.removeAttribute(name));
  svg.setAttribute("font-family", "sans-serif");
  svg.setAttribute("font-size", "12");
};

// Adds the colours for readers with a dark background.
const addDarkColors = (svg) => {
  const rules = ["fill", "stroke"].flatMap((key) => {
    const all = [...svg.querySelectorAll(`[${key}^="#"]`)].map((one) => one.getAttribute(key));
    return [...new Set(all)].map((light) => [light, DARK[light] ?? onDark(light)])
      .filter(([light, other]) => light !== other)
      .map(([light, other]) => `[${key}="${light}"]{${key}:${other}}`);
  });
  svg.prepend(makeSvg("style"));
  svg.firstChild.textContent =
    `@media screen and (prefers-color-scheme:dark){${rules.join("")}}`;
};

const beginPaper = async (inches, scheme) => {
  onPaper = true;
  beginPlots();
  beginSweeps();
  const texts = [];
  const sheets = [];
  const sizes = [];
  for (const [figure, state] of figures) {
    state.width = Math.round(inches * DENSITY);
    const { data, layout } = pictureOf(state);
    const { width, height } = layout;
    const url = await Plotly.toImage({ data, layout }, { format: "svg", width, height });
    const text = decodeURIComponent(url.slice(url.indexOf(",") + 1));
    const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    const size = [`${inches}in`, `${(inches * height / state.width).toFixed(3)}in`];
    simplify(svg, `c${sheets.length}`);
    if (scheme === "auto") addDarkColors(svg);
    svg.setAttribute("width", size[0]);
    svg.setAttribute("height", size[1]);
    texts.push({ name: figure.dataset.name, svg: new XMLSerializer().serializeToString(svg) });
    const sheet = make("div", { style: `page: sheet${sheets.length}; break-after: page` });
    sheet.append(document.importNode(svg, true));
    sizes.push(`@page sheet${sheets.length} { size: ${size.join(" ")}; margin: 0; }`);
    sheets.push(sheet);
  }
  sheets.at(-1)?.style.removeProperty("break-after");
  const plain = "body { margin: 0; padding: 0; } svg { display: block; }";
  document.head.replaceChildren(make("style", {}, plain, ...sizes));
  const json = JSON.stringify(texts).replace(/</g, "\\u003c");
  const list = make("script", { type: "application/json", id: "figures" }, json);
  document.body.replaceChildren(...sheets, list);
};

beginPaper(WIDTH_IN_INCHES, "SCHEME");
