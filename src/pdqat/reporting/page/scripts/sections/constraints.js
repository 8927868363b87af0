/* The table of constraints: how far each is from its tolerance, and what it costs. */

const STATES = { violated: "bad", active: "warn", satisfied: "good" };

function constraintsSection(run) {
  const rows = run.constraints;
  const most = Math.max(...rows.map((row) => (row.tolerance > 0 ? row.distance / row.tolerance : 0)), 1.25);
  const kinds = new Set(rows.map((row) => row.kind));
  return section(
    "constraints",
    "Constraints",
    element(
      "p",
      {},
      "Each says that a mean distance between full and low precision is at most its tolerance. ",
      badge("bad", "violated"),
      " the distance is larger. ",
      badge("warn", "active"),
      " it is met, with less than a tenth of the tolerance to spare. ",
      badge("good", "satisfied"),
      " it is met with room. A satisfied constraint whose multiplier is above 0 is still coming to rest.",
    ),
    table(
      [
        { label: "constraint", value: (row) => row.where || row.kind, cell: (row) => constraintName(row) },
        ...(new Set(rows.map((row) => row.view)).size > 1 ? [{ label: "view", value: (row) => row.view }] : []),
        { label: "bits", value: (row) => row.bits },
        { label: "state", value: (row) => row.state, cell: (row) => badge(STATES[row.state], row.state) },
        {
          label: "distance / tolerance",
          numeric: true,
          value: (row) => (row.tolerance > 0 ? row.distance / row.tolerance : null),
          cell: (row) => meter(row, most),
        },
        { label: "distance", numeric: true, value: (row) => row.distance },
        { label: "tolerance", numeric: true, value: (row) => row.tolerance },
        { label: "slack", numeric: true, value: (row) => row.slack, cell: (row) => number(row.slack, true) },
        { label: "multiplier", numeric: true, value: (row) => row.multiplier },
      ],
      rows,
      {
        name: "constraints",
        search: true,
        filters: [
          { label: "state", value: (row) => row.state },
          ...(kinds.size > 1 ? [{ label: "kind", value: (row) => row.kind }] : []),
        ],
        caption: rows.some((row) => row.channels > 1)
          ? "Of a constraint on every channel, the channel with the largest slack is shown."
          : null,
      },
    ),
  );
}

function constraintName(row) {
  const name = row.where || row.kind;
  return row.channels > 1 ? `${name} (worst of ${row.channels} channels)` : name;
}

function meter(row, most) {
  if (!(row.tolerance > 0)) return "–";
  const ratio = row.distance / row.tolerance;
  return element(
    "span",
    {
      class: `meter ${row.state}`,
      role: "img",
      "aria-label": `${percent(ratio, 0)} of the tolerance`,
      title: `${percent(ratio, 0)} of the tolerance`,
    },
    element("i", { style: { width: `${Math.min(100, (100 * ratio) / most)}%` } }),
    element("b", { style: { left: `${100 / most}%` } }),
  );
}
