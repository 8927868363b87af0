/* Size, operations, times and memory beside float32. */

function sizeSection(run) {
  const { rows, unmeasured } = run.size;
  return section(
    "size",
    "Size, operations and speed",
    table(
      [
        { label: "what", value: (row) => row.what },
        { label: "float32", numeric: true, value: (row) => row.float32, cell: (row) => amount(row.float32, row.unit) },
        { label: "low precision", numeric: true, value: (row) => row.low, cell: (row) => amount(row.low, row.unit) },
        {
          label: "of float32",
          numeric: true,
          value: (row) => (row.float32 ? row.low / row.float32 : null),
          cell: (row) => (row.float32 ? share(row.low / row.float32) : "–"),
        },
        { label: "how it is known", value: (row) => row.source },
      ],
      rows,
      { name: "size" },
    ),
    unmeasured && note(`Not measured: ${unmeasured}.`),
  );
}

function share(ratio) {
  return element(
    "span",
    { class: "inline-bar" },
    percent(ratio, 0),
    element("i", { style: { width: `${Math.min(100, 100 * ratio)}%` } }),
  );
}
