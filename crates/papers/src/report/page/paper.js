// All figures one by one, in the width of a paper's column or page: as sheets, and as text.

// With this many pixels per inch, text of 12 px is 7.2 points high.
const DENSITY = 120;

const beginPaper = async (inches) => {
  onPaper = true;
  beginPlots();
  beginSweeps();
  const texts = [];
  const sheets = [];
  const sizes = [];
  for (const [figure, state] of figures) {
    state.width = Math.round(inches * DENSITY);
    const { svg: text, height } = await pictureOf(state);
    const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    const size = [`${inches}in`, `${(inches * height / state.width).toFixed(3)}in`];
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

beginPaper(WIDTH_IN_INCHES);
