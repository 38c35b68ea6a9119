// Follows runs that go on: rereads their state, and draws it over simulated time. When the last one
// ends, the page reloads and shows the report.

const PERIOD_MS = 1000;

const lineOf = (name, x, y) => ({ type: "scatter", mode: "lines", name, x, y });

const layoutOf = (label) => ({
  height: 320, margin: { l: 66, r: 24, t: 10, b: 50 }, showlegend: true,
  font: { family: "sans-serif", size: 12, color: dark.matches ? "#ddd" : "#222" },
  paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
  legend: { orientation: "h", y: -0.25 },
  xaxis: { title: { text: "simulated time (ms)" }, rangemode: "tozero" },
  yaxis: { title: { text: label }, rangemode: "tozero" },
});

const drawLive = (id, label, lines) =>
  Plotly.react(id, lines, layoutOf(label), { displayModeBar: false, responsive: true });

// Every run has the empty label, most have no flow with it.
const hasFlows = ([label, gbps]) => label || gbps.some((value) => value > 0);

let hasCurves = false;

const show = (runs) => {
  hasCurves = true;
  const names = runs.map((run) => (runs.length > 1 ? `${run.folder} ` : ""));
  document.getElementById("state").textContent = runs.map((run, i) =>
    `${names[i]}${run.name}: ${(100 * run.share).toFixed(0)} %`).join(", ");
  drawLive("goodput", "goodput (Gbit/s)", runs.flatMap((run, i) => [
    lineOf(`${names[i]}all flows`, run.time_ms, run.goodput_gbps),
    ...Object.entries(run.completed_gbps).filter(hasFlows).map(([label, gbps]) =>
      lineOf(`${names[i]}${label || "no label"}, completed`, run.time_ms, gbps)),
  ]));
  drawLive("queue", "longest queue (KB)",
    runs.map((run, i) => lineOf(`${names[i]}longest queue`, run.time_ms, run.queue_kb)));
};

const follow = async () => {
  const { runs, complete } = await (await fetch("live.json")).json();
  if (runs.length) show(runs);
  else if (complete) location.reload();
  else document.getElementById("state").textContent = hasCurves
    ? "No run is in progress, and the folder has no results."
    : "No run has reported its state yet.";
};

setInterval(() => follow().catch(() => {
  document.getElementById("state").textContent = "The server has ended.";
}), PERIOD_MS);
follow();
