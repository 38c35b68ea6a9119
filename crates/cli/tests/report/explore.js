// Interacts with the page like a reader, and records its state after each step.
async () => {
  dispatchEvent(new Event("beforeprint"));
  const until = async (done) => {
    for (let i = 0; i < 600 && !done(); i++) await new Promise((then) => setTimeout(then, 50));
  };
  const titled = (title) => [...document.querySelectorAll("figure.plot")]
    .find((figure) => figure.querySelector("figcaption").textContent.startsWith(title));
  const lines = (figure) => figure.querySelectorAll(".scatterlayer .trace").length;
  const framed = () => new Promise((then) => requestAnimationFrame(() => setTimeout(then)));
  const observed = {};

  // A click on a name in the legend hides its line, another one shows it.
  const slowdowns = titled("Slowdown of messages");
  const press = () => {
    const name = slowdowns.querySelector(".legendtoggle");
    for (const type of ["mousedown", "mouseup"]) {
      name.dispatchEvent(new MouseEvent(type, { bubbles: true }));
    }
  };
  const all = lines(slowdowns);
  press();
  await until(() => lines(slowdowns) < all);
  // Two rapid clicks would be a double click.
  await new Promise((then) => setTimeout(then, 600));
  const hidden = lines(slowdowns);
  press();
  await until(() => lines(slowdowns) === all);
  observed.legend = [all, hidden, lines(slowdowns)];

  // Switch to the tail on a log axis, and back.
  const tail = slowdowns.querySelector(".tools button");
  const label = () => slowdowns.querySelector(".ytitle").textContent;
  observed.tail = [label()];
  tail.click();
  await until(() => label() !== observed.tail[0]);
  observed.tail.push(label(), tail.getAttribute("aria-pressed"));
  tail.click();
  await until(() => label() === observed.tail[0]);
  observed.tail.push(label());

  // Hide a protocol: its rows and lines disappear, in a plot out of view when the page is printed.
  const far = titled("Queue from s0");
  slowdowns.scrollIntoView({ block: "start", behavior: "instant" });
  await framed();
  observed.far = [far.getBoundingClientRect().top > 2 * innerHeight, lines(far)];
  const rows = () => [...document.querySelectorAll("main tr[data-protocol]")]
    .filter((row) => !row.hidden).length;
  const box = document.querySelector("#filters input[type=checkbox]");
  const own = [...document.querySelectorAll("main tr[data-protocol]")]
    .filter((row) => row.dataset.protocol === box.closest("label").dataset.protocol).length;
  observed.rows = [rows(), own];
  box.click();
  await until(() => lines(slowdowns) < all);
  observed.protocol = [rows(), lines(slowdowns)];
  await framed();
  observed.far.push(lines(far));
  dispatchEvent(new Event("beforeprint"));
  observed.far.push(lines(far));
  box.click();
  await until(() => lines(slowdowns) === all);

  // Select messages of the smallest size.
  const drawn = () =>
    slowdowns.querySelector(".scatterlayer .trace path.js-line")?.getAttribute("d");
  const choose = (name, at) => {
    const select = document.querySelector(`#filters select[name=${name}]`);
    select.selectedIndex = at < 0 ? select.length + at : at;
    select.dispatchEvent(new Event("change"));
    return select.value;
  };
  const before = drawn();
  observed.size = [choose("size", 1)];
  await until(() => drawn() !== before);
  observed.size.push(drawn() !== before);
  choose("size", 0);
  await until(() => drawn() === before);
  observed.size.push(drawn() === before);

  // Select one label: plots of other labels disappear.
  const shown = () => [...document.querySelectorAll("figure.plot")]
    .map((figure) => [figure.hidden, figure.querySelector("figcaption").textContent])
    .filter(([hidden, title]) => !hidden && title.startsWith("Slowdown of messages"))
    .map(([, title]) => title);
  observed.labels = shown();
  observed.label = [choose("label", -1), shown()];
  choose("label", 0);

  // Sort a table by its first numeric column, in both directions.
  const head = document.querySelector("main .wide th.n");
  const column = [...head.parentElement.cells].indexOf(head);
  const cells = () => [...head.closest("table").tBodies[0].rows]
    .map((row) => Number.parseFloat(row.cells[column].textContent));
  observed.sorted = [];
  for (let i = 0; i < 2; i++) {
    head.click();
    observed.sorted.push([head.getAttribute("aria-sort"), cells()]);
  }

  // Show the fabric over time.
  const fabric = document.querySelector("figure.fabric");
  const links = () => [...fabric.querySelectorAll(".link")];
  const colors = () => links().map((link) => link.style.stroke).join();
  const slider = fabric.querySelector("input[type=range]");
  const quantity = fabric.querySelector("select.quantity");
  observed.fabric = { nodes: fabric.querySelectorAll(".node").length, seen: [colors()] };
  quantity.value = "queue";
  quantity.dispatchEvent(new Event("change"));
  for (const at of [slider.min, Math.floor(slider.max / 2), slider.max]) {
    slider.value = at;
    slider.dispatchEvent(new Event("input"));
    observed.fabric.seen.push(colors());
  }
  observed.fabric.time = fabric.querySelector("output.time").textContent;

  // The contents link to every section.
  const contents = [...document.querySelectorAll("#contents a")];
  observed.contents = contents.map((link) => document.querySelector(link.hash)?.textContent);

  // Return the position to click for a message.
  const single = titled("Single messages");
  const point = single.querySelector(".scatterlayer .point");
  point.scrollIntoView({ block: "center", behavior: "instant" });
  // In view, the plot is drawn again with all messages.
  await framed();
  await framed();
  const { left, right, top, bottom } = point.getBoundingClientRect();
  observed.point = [(left + right) / 2, (top + bottom) / 2];
  return observed;
}
