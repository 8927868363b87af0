/* How loud rounding is in every layer. */

function noiseSection(run) {
  const several = new Set(run.noise.map((row) => row.view)).size > 1;
  const names = run.noise.map((row) => (several ? `${row.layer} (${row.view})` : row.layer));
  const hasTraining = run.noise.some((row) => row.training !== null);
  return section(
    "noise",
    "Signal-to-noise by layer",
    element(
      "p",
      {},
      "How much louder a layer's output is than what rounding its weights adds to it, both sides reading the same " +
        "rounded input. 10 dB more is a tenth of the noise. Where validation is far below training, the rounding " +
        "fits the training samples only.",
    ),
    barChart({
      title: "Signal-to-noise",
      name: "signal-to-noise",
      names,
      xTitle: "dB",
      format: (value) => `${value.toFixed(1)} dB`,
      axis: number,
      series: [
        { label: "validation", values: run.noise.map((row) => row.validation) },
        ...(hasTraining ? [{ label: "training", values: run.noise.map((row) => row.training) }] : []),
      ],
    }),
  );
}
