/* Several runs side by side, and their difference from the first. */

function compareSection(runs) {
  const [first] = runs;
  return section(
    "compare",
    "The runs side by side",
    element("p", {}, `Differences are from the first run, ${first.name}.`),
    comparisonTable(runs, comparedRows(runs), "comparison"),
    scoresOverEpochs(runs),
    layerRows(runs).length > 0 && [
      element("h3", {}, "Layers: multipliers"),
      comparisonTable(runs, layerRows(runs), "layers"),
    ],
  );
}

/** rows: [{what, values (one a run), show(value), difference(value)}]. */
function comparisonTable(runs, rows, name) {
  const columns = [{ label: "what", value: (row) => row.what }];
  runs.forEach((run, index) => {
    columns.push({
      label: run.name,
      numeric: true,
      value: (row) => row.values[index],
      cell: (row) => row.show(row.values[index]),
    });
    if (index > 0) {
      const difference = (row) =>
        typeof row.values[index] === "number" && typeof row.values[0] === "number"
          ? row.values[index] - row.values[0]
          : null;
      columns.push({
        label: `${run.name}, difference`,
        numeric: true,
        value: difference,
        cell: (row) => (difference(row) === null ? "–" : row.difference(difference(row))),
      });
    }
  });
  return table(columns, rows, { name, search: rows.length > 12 });
}

function comparedRows(runs) {
  const rows = [];
  const { is_share: isShare, metric } = runs[0].scores;
  const same = runs.every((run) => run.scores.metric === metric);
  const labels = [
    ...new Set(
      runs.flatMap((run) =>
        run.scores.rows.flatMap((row) => Object.keys(row.by_part).map((part) => `${KINDS[row.kind]}, ${part}`)),
      ),
    ),
  ];
  for (const label of same ? labels : []) {
    const values = runs.map(
      (run) =>
        run.scores.rows
          .flatMap((row) => Object.entries(row.by_part).map(([part, value]) => [`${KINDS[row.kind]}, ${part}`, value]))
          .find(([other]) => other === label)?.[1] ?? null,
    );
    rows.push({
      what: `${metric.replaceAll("_", " ")}: ${label}`,
      values,
      show: (value) => score(value, isShare),
      difference: (value) => scoreDifference(value, isShare),
    });
  }
  const plain = (what, values, show = number) =>
    rows.push({
      what,
      values,
      show,
      difference: (value) =>
        show === number ? number(value, true) : `${value > 0 ? "+" : value < 0 ? "-" : ""}${show(Math.abs(value))}`,
    });
  plain(
    "constraints violated",
    runs.map((run) => run.constraints?.filter((row) => row.state === "violated").length ?? null),
  );
  plain(
    "average weight bits",
    runs.map((run) => run.plan?.[0].average_bits ?? null),
  );
  plain(
    "predicted cost",
    runs.map((run) => run.plan?.[0].cost ?? null),
  );
  const counted = (run, unit) =>
    run.size?.rows.find((row) => row.unit === unit && row.source.startsWith("counted"))?.low ?? null;
  plain(
    "parameters, low precision",
    runs.map((run) => counted(run, "bytes")),
    (value) => amount(value, "bytes"),
  );
  plain(
    "bit operations, low precision",
    runs.map((run) => counted(run, "BOPs")),
    (value) => amount(value, "BOPs"),
  );
  return rows.filter((row) => row.values.some((value) => value !== null));
}

function layerRows(runs) {
  const multipliers = runs.map(
    (run) => new Map((run.constraints ?? []).map((row) => [row.where || row.kind, row.multiplier])),
  );
  const names = [...new Set(multipliers.flatMap((each) => [...each.keys()]))];
  return names.map((what) => ({
    what,
    values: multipliers.map((each) => each.get(what) ?? null),
    show: number,
    difference: (value) => number(value, true),
  }));
}

function scoresOverEpochs(runs) {
  const known = runs.filter((run) => run.history);
  if (!known.length) return null;
  const longest = Math.max(...known.map((run) => run.history.epochs.length));
  const epochs = Array.from({ length: longest }, (_, index) => index + 1);
  const { metric, is_share: isShare } = runs[0].scores;
  const series = known.flatMap((run, hue) =>
    Object.entries(run.history.scores).map(([view, values]) => ({
      hue,
      label: `${run.name}: ${view === "full" ? KINDS.full : view}`,
      dashed: view === "full",
      values: epochs.map((epoch) => values[run.history.epochs.indexOf(epoch)] ?? null),
    })),
  );
  return epochChart({
    title: `${metric.replaceAll("_", " ")} on validation samples (dashed: full precision)`,
    name: "runs-by-epoch",
    epochs,
    series,
    yTitle: metric.replaceAll("_", " "),
    format: (value) => score(value, isShare),
    axis: scoreAxis(isShare),
    height: 320,
  });
}
