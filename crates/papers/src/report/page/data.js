// The page's data, and helper functions.

const data = JSON.parse(document.getElementById("data").textContent);

const dark = matchMedia("screen and (prefers-color-scheme: dark)");

// Creates an element with attributes and children. Texts are never markup.
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
};

const makeSvg = (name, attributes = {}) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

// Three significant digits.
const digits = (value) =>
  value === null || value === undefined ? "–"
    : Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en")
      : String(Number(value.toPrecision(3)));

const bytes = (value) =>
  value === null ? "unlimited"
    : value >= 1e6 ? `${digits(value / 1e6)} MB`
      : value >= 1e3 ? `${digits(value / 1e3)} KB` : `${value} B`;

const channels = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));

// Mixes a colour with a share of white (of black if the share is negative).
const mixed = (color, share) => {
  const end = share < 0 ? 0 : 255;
  const part = channels(color).map((c) => Math.round(c + (end - c) * Math.abs(share)));
  return `rgb(${part.join(",")})`;
};

// WCAG 2.
const luminance = (color) => {
  const [r, g, b] = channels(color).map((c) =>
    c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

const contrastOf = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};

// Light and dark backgrounds.
const WHITE = "#ffffff";
const NIGHT = "#16181c";
// Least contrast of a line with its background, as WCAG 2 requires of graphics.
const CONTRAST = 3;

// The colour with enough contrast with a background that is nearest to `color`: it is darkened, or
// on a dark background lightened, by steps of a hundredth. python/tidegate/_colors.py does the
// same.
const legible = (color, ground) => {
  const end = luminance(ground) > 0.5 ? 0 : 255;
  for (let step = 0; step < 100; step++) {
    const all = channels(color).map((c) => Math.round(c + (end - c) * step / 100));
    const found = `#${all.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
    if (contrastOf(found, ground) >= CONTRAST) return found;
  }
  return end ? WHITE : "#000000";
};

// The colour of a line on a dark page: a dark colour is lightened, but keeps its hue.
const onDark = (color) => {
  if (luminance(color) >= 0.12) return legible(color, NIGHT);
  const most = Math.max(1, ...channels(color));
  const lighter = channels(color).map((c) => Math.round(0.75 * 170 * c / most + 0.25 * 255));
  return legible(`#${lighter.map((c) => c.toString(16).padStart(2, "0")).join("")}`, NIGHT);
};

// Line styles: the hue is the protocol's; further lines of a protocol are dashed, and have more
// contrast.
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const tinted = (color, nth) => {
  const share = 0.25 * Math.min(nth, 2);
  return dark.matches ? mixed(onDark(color), share) : mixed(legible(color, WHITE), -share);
};
