/* Tables that can be sorted, filtered and downloaded. */

/**
 * A table.
 * columns: [{label, value(row), cell(row)?, numeric?}]; `value` is what is sorted by and written to CSV, `cell` what is
 * shown instead of it.
 * options: name (of the CSV file), caption, filters [{label, value(row)}], search (whether rows can be searched),
 * selected(row), choose(row).
 */
function table(columns, rows, options = {}) {
  const shown = { column: null, up: true, search: "", filters: {} };
  const body = element("tbody");
  const counted = element("span", { class: "count", role: "status" });
  const headings = columns.map((column, index) =>
    element(
      "th",
      { scope: "col", class: column.numeric && "numeric", "aria-sort": "none" },
      element("button", { type: "button", onclick: () => sortBy(index) }, column.label),
    ),
  );

  function sortBy(index) {
    const first = columns[index].numeric ? false : true;
    shown.up = shown.column === index ? !shown.up : first;
    shown.column = index;
    headings.forEach((heading, at) =>
      heading.setAttribute("aria-sort", at !== index ? "none" : shown.up ? "ascending" : "descending"),
    );
    fill();
  }

  function visible() {
    const words = shown.search.toLowerCase();
    const kept = rows.filter(
      (row) =>
        (!words ||
          columns.some((column) =>
            String(column.value(row) ?? "")
              .toLowerCase()
              .includes(words),
          )) &&
        (options.filters ?? []).every(
          (filter) => !shown.filters[filter.label] || filter.value(row) === shown.filters[filter.label],
        ),
    );
    if (shown.column === null) return kept;
    const { value } = columns[shown.column];
    return [...kept].sort((left, right) => (shown.up ? 1 : -1) * compared(value(left), value(right)));
  }

  function fill() {
    const kept = visible();
    body.replaceChildren(
      ...kept.map((row) =>
        element(
          "tr",
          { class: options.selected?.(row) && "selected" },
          columns.map((column, index) =>
            element(
              "td",
              { class: column.numeric ? "numeric" : index === 0 && "name" },
              column.cell ? column.cell(row) : breakable(text(column.value(row))),
            ),
          ),
        ),
      ),
    );
    counted.textContent =
      kept.length === rows.length ? plural(rows.length, "row") : `${kept.length} of ${plural(rows.length, "row")}`;
  }

  const tools = element(
    "div",
    { class: "tools" },
    options.search &&
      element("input", {
        type: "search",
        placeholder: "Filter…",
        "aria-label": `Filter ${options.name}`,
        oninput: (event) => {
          shown.search = event.target.value;
          fill();
        },
      }),
    (options.filters ?? []).map((filter) =>
      chooser(
        filter.label,
        [["", "all"], ...[...new Set(rows.map(filter.value))].map((value) => [value, value])],
        "",
        (value) => {
          shown.filters[filter.label] = value;
          fill();
        },
      ),
    ),
    counted,
    element(
      "button",
      { type: "button", onclick: () => download(`${options.name}.csv`, "text/csv", csv(columns, visible())) },
      "CSV",
    ),
  );
  fill();
  return element(
    "div",
    {},
    tools,
    element(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": options.name },
      element(
        "table",
        {},
        options.caption && element("caption", {}, options.caption),
        element("thead", {}, element("tr", {}, headings)),
        body,
      ),
    ),
  );
}

function text(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? number(value) : String(value);
}

/** Numbers by size, text by the alphabet, and what is missing at the end. */
function compared(left, right) {
  if (left === null || left === undefined) return right === null || right === undefined ? 0 : 1;
  if (right === null || right === undefined) return -1;
  return typeof left === "number" ? left - right : String(left).localeCompare(String(right), "en", { numeric: true });
}

/** As RFC 4180 has it. A text that a spreadsheet would take for a formula gets a quote in front. */
function csv(columns, rows) {
  const field = (value) => {
    let written = value === null || value === undefined ? "" : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(written)) written = `'${written}`;
    return /[",\r\n]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written;
  };
  return [
    columns.map((column) => field(column.label)),
    ...rows.map((row) => columns.map((column) => field(column.value(row)))),
  ]
    .map((fields) => `${fields.join(",")}\r\n`)
    .join("");
}
