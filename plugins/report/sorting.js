// Tables that are sorted by their headings, and saved as CSV.

// columns: [{ title, extra? }], rows: [{ values, node() }], one value a column: a number, a text, or null, which stays last.
// The rows go into `body`, at most `most` of them; a click, Enter or Space on a heading sorts all.
function sortable(table, columns, rows, body, most = Infinity) {
  const show = () => body.replaceChildren(...rows.slice(0, most).map((row) => row.node()));
  const headings = columns.map(({ title, extra }, column) => {
    const button = el("button", { type: "button", class: "sort" }, title);
    const heading = el("th", { scope: "col", class: extra ? "extra" : null, "aria-sort": "none" }, button);
    button.addEventListener("click", () => {
      const turn = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
      rows.sort((one, other) => compared(one.values[column], other.values[column], turn));
      show();
    });
    return heading;
  });
  table.prepend(el("thead", {}, el("tr", {}, ...headings)));
  show();
}

function compared(one, other, turn) {
  if (one === null || other === null) return (one === null) - (other === null);
  return turn * (typeof one === "number" ? one - other : one < other ? -1 : one > other ? 1 : 0);
}

// A spreadsheet runs a text that begins like a formula: such a text gets a ' in front, as in the harness' own CSV files.
const FORMULA = /^ *[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20']/;

function csvCell(value) {
  if (value === null || value === undefined) return "";
  const short = typeof value === "number" ? Number(value.toPrecision(6)) : value;
  const text = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(short);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveCsv(name, lines) {
  const text = lines.map((line) => `${line.map(csvCell).join(",")}\n`).join("");
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Says that a wide table goes on to the right: a shade at its edge, and words where the screen is narrow.
function cue(room) {
  const look = () => room.parentElement.classList.toggle("goes-on", room.scrollLeft + room.clientWidth < room.scrollWidth - 2);
  room.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(room);
  new ResizeObserver(look).observe(room.firstElementChild);
}
