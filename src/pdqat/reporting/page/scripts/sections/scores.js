/* What was trained, and the scores of every view. */

const KINDS = {
  full: "full precision",
  low: "low precision",
  weights: "weights only",
  activations: "activations only",
};

/** The part of the data by which the page speaks of a score: the test samples where there are any. */
function mainPart(scores) {
  return scores.parts.includes("test") ? "test" : scores.parts[0];
}

function overviewSection(run) {
  const { scores } = run;
  const part = mainPart(scores);
  const full = scores.rows.find((row) => row.kind === "full");
  const tiles = scores.rows
    .filter((row) => row.kind === "full" || row.kind === "low")
    .map((row) => {
      const difference =
        full && row !== full
          ? `${scoreDifference(row.by_part[part] - full.by_part[part], scores.is_share)} against full`
          : "";
      return tile(
        score(row.by_part[part], scores.is_share),
        row.kind === "full" ? "full precision" : row.view,
        `${scores.metric.replaceAll("_", " ")}, ${part}${difference && `, ${difference}`}`,
      );
    });
  const size = run.size?.rows.find((row) => row.unit === "bytes" && row.source === "counted");
  if (size)
    tiles.push(
      tile(
        `${number(Number((size.float32 / size.low).toPrecision(3)))} ×`,
        "smaller",
        `${amount(size.low, "bytes")} instead of ${amount(size.float32, "bytes")}`,
      ),
    );
  if (run.constraints) {
    const met = run.constraints.filter((row) => row.state !== "violated").length;
    tiles.push(
      tile(
        `${met} of ${run.constraints.length}`,
        "constraints met",
        `${run.constraints.filter((row) => row.state === "active").length} of them active`,
      ),
    );
  }
  if (run.verification) {
    const verified = run.verification.filter((file) => file.state === "verified").length;
    tiles.push(
      tile(
        `${verified} of ${run.verification.length}`,
        "exported files verified",
        run.verification.map((file) => file.file.split("/").at(-1)).join(", "),
      ),
    );
  }
  return section("overview", run.name, element("div", { class: "tiles" }, tiles), facts(Object.entries(run.about)));
}

function tile(value, label, detail) {
  return element(
    "div",
    { class: "tile" },
    element("span", { class: "value" }, value),
    element("span", { class: "label" }, label),
    element("span", { class: "detail" }, detail),
  );
}

function scoresSection(run) {
  const { scores } = run;
  const part =
    scores.parts.findLast((each) => scores.rows.every((row) => row.by_part[each] !== undefined)) ?? scores.parts[0];
  const colours = {
    full: seriesColour(0),
    low: seriesColour(1),
    weights: seriesColour(2),
    activations: seriesColour(3),
  };
  const format = (value) => score(value, scores.is_share);
  const title = scores.metric.replaceAll("_", " ");
  return section(
    "scores",
    "Scores of every view",
    element(
      "p",
      {},
      "How good the model is in full precision and in low precision, and which half of low precision costs it: " +
        "rounding only the weights, or only the activations.",
    ),
    barChart({
      title: `${title} on ${part}`,
      name: "scores",
      names: scores.rows.map((row) => (row.kind === "full" ? KINDS.full : row.view)),
      xTitle: title,
      format,
      axis: scoreAxis(scores.is_share),
      least: 0,
      behind: false,
      series: [
        {
          label: title,
          values: scores.rows.map((row) => row.by_part[part] ?? null),
          colours: scores.rows.map((row) => colours[row.kind]),
        },
      ],
    }),
    table(
      [
        { label: "view", value: (row) => (row.kind === "full" ? KINDS.full : row.view) },
        {
          label: "what is rounded",
          value: (row) => ({ full: "nothing", low: "weights and activations" })[row.kind] ?? row.kind,
        },
        ...scores.parts.map((each) => ({
          label: each,
          numeric: true,
          value: (row) => row.by_part[each],
          cell: (row) => format(row.by_part[each]),
        })),
      ],
      scores.rows,
      { name: "scores" },
    ),
    scores.note && note(`Weights and activations alone are not measured: ${scores.note}.`),
  );
}
