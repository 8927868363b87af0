/* The layers by what their precision is said to cost, by multipliers and by others' rankings. */

const RANKING_NAMES = {
  dual: "multiplier",
  hessian: "Hessian trace",
  gradient: "gradient",
  "only-low": "only it low",
  "only-high": "only it high",
  distance: "distance",
};

function rankingSection(run) {
  const { layers, scores, agreement, refused, samples } = run.ranking;
  const columns = Object.entries(scores).map(([by, ofLayer]) => {
    const most = Math.max(...Object.values(ofLayer), 0);
    const places = Object.entries(ofLayer)
      .sort((left, right) => right[1] - left[1])
      .map(([layer]) => layer);
    return {
      label: RANKING_NAMES[by] ?? by,
      numeric: true,
      value: (layer) => ofLayer[layer] ?? null,
      cell: (layer) =>
        ofLayer[layer] === undefined
          ? "–"
          : element(
              "span",
              { class: "inline-bar", title: `score ${number(ofLayer[layer])}` },
              `${places.indexOf(layer) + 1}.`,
              element("i", { style: { width: `${most > 0 ? (100 * Math.max(0, ofLayer[layer])) / most : 0}%` } }),
            ),
    };
  });
  const first = Object.keys(scores)[0];
  const byFirst = [...layers].sort((left, right) => (scores[first][right] ?? 0) - (scores[first][left] ?? 0));
  const others = Object.entries(agreement)
    .filter(([by]) => by !== first)
    .map(([by, value]) => `${RANKING_NAMES[by] ?? by} ${value.toFixed(2)}`);
  return section(
    "ranking",
    "Which layers need their precision",
    element(
      "p",
      {},
      `Place and score of every layer, by ${RANKING_NAMES[first] ?? first} first, judged on ` +
        `${plural(samples, "validation sample")}. A longer bar asks for more bits.`,
    ),
    table([{ label: "layer", value: (layer) => layer }, ...columns], byFirst, {
      name: "ranking",
      search: layers.length > 12,
    }),
    others.length > 0 &&
      note(`Rank correlation with the first column: ${others.join(", ")} (1 is the same order, 0 none).`),
    Object.entries(refused).map(([by, reason]) => note(`${RANKING_NAMES[by] ?? by}: ${reason}.`)),
  );
}
