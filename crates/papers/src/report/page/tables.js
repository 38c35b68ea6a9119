// Tables that are sorted by a click on a column head.

// Sort key of a cell: its `data-number`; otherwise the first number in it if the column is numeric;
// otherwise its text.
const keyOf = (cell) => {
  if (cell.dataset.number !== undefined) return Number(cell.dataset.number);
  const text = cell.textContent.trim();
  if (!cell.classList.contains("n")) return text.toLowerCase();
  const number = text.replace(/,/g, "").match(/-?\d+(\.\d+)?/);
  return number ? Number(number[0]) : null;
};

const compared = (a, b) =>
  typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });

const sortBy = (table, head, column) => {
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
  // Cells without a value come last in both directions.
  rows.sort(([a], [b]) =>
    a === null || b === null ? (a === null) - (b === null) : up ? compared(a, b) : compared(b, a));
  body.append(...rows.map(([, row]) => row));
};

const beginTable = (table) => {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.setAttribute("aria-sort", "none");
    head.tabIndex = 0;
    head.addEventListener("click", () => sortBy(table, head, column));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter") sortBy(table, head, column);
    });
  });
};

// Titles of numbers, which a narrow screen shows beside them: there, cells are below each other.
const nameNumbers = (table) => {
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  for (const cell of table.querySelectorAll("td.n")) cell.dataset.of = heads[cell.cellIndex];
};

const beginTables = () => {
  document.querySelectorAll("main .wide > table").forEach(beginTable);
  document.querySelectorAll("main .stacked table").forEach(nameNumbers);
};
