/* Plans of all sizes: what they score without training for them, and the one that was trained. */

function frontierSection(run) {
  const { points, trained, metric, is_share: isShare } = run.frontier;
  const format = (value) => score(value, isShare);
  const xy = (point) => ({ x: point.kilobytes, y: point.score, point });
  const named = points.filter((point) => point.name);
  const label = (point) =>
    [
      point.name || "plan",
      `${number(point.average_bits)} bits`,
      `${number(point.kilobytes)} KB`,
      format(point.score),
    ].join(", ");
  const sets = [
    {
      label: "plans, without training for them",
      data: points.map(xy),
      showLine: true,
      borderColor: seriesColour(0),
      backgroundColor: seriesColour(0),
      borderWidth: 2,
      pointRadius: 3.5,
      order: 3,
    },
    ...named.map((point, index) => ({
      label: point.name,
      data: [xy(point)],
      backgroundColor: seriesColour(index + 2),
      borderColor: seriesColour(index + 2),
      pointRadius: 8,
      pointStyle: index ? "triangle" : "rectRot",
      order: 2,
    })),
    ...(trained
      ? [
          {
            label: "the trained plan",
            data: [xy(trained)],
            backgroundColor: seriesColour(1),
            borderColor: seriesColour(1),
            pointRadius: 9,
            pointStyle: "star",
            borderWidth: 3,
            order: 1,
          },
        ]
      : []),
  ];
  const rows = [...(trained ? [trained] : []), ...points];
  const layers = Object.keys((trained ?? points[0]).layers);
  return section(
    "frontier",
    "The frontier of plans",
    element(
      "p",
      {},
      "Each plan is the one of its size whose bits are predicted to cost least. The curve shows the weights as they " +
        "are, with norms estimated anew and no training under the plan; the star is the plan that was trained.",
    ),
    figure({
      title: `${metric.replaceAll("_", " ")} against size`,
      height: 320,
      config: {
        type: "scatter",
        data: { datasets: sets },
        options: {
          scales: {
            x: {
              type: "logarithmic",
              title: { display: true, text: "weights of the planned layers, KB" },
              ticks: { callback: (value) => number(value), maxTicksLimit: 8 },
            },
            y: { title: { display: true, text: metric.replaceAll("_", " ") }, ticks: { callback: scoreAxis(isShare) } },
          },
          plugins: {
            tooltip: { callbacks: { label: (item) => label(item.raw.point) } },
            legend: { labels: { usePointStyle: true, pointStyleWidth: 12, boxHeight: 6 } },
          },
        },
      },
    }),
    table(
      [
        { label: "plan", value: (row) => row.name },
        { label: "average bits", numeric: true, value: (row) => row.average_bits },
        { label: "KB", numeric: true, value: (row) => row.kilobytes },
        { label: "predicted cost", numeric: true, value: (row) => row.cost },
        {
          label: metric.replaceAll("_", " "),
          numeric: true,
          value: (row) => row.score,
          cell: (row) => format(row.score),
        },
        {
          label: "bits of each layer",
          value: (row) => layers.map((layer) => row.layers[layer] ?? "full").join(" "),
          cell: (row) => strip(layers.map((layer) => row.layers[layer] ?? "full")),
        },
      ],
      rows,
      { name: "frontier" },
    ),
  );
}
