/* The plan as a picture of the network, and beside it all that is known of the layer that one clicks. */

const SPIKE = 12;
/* A histogram whose largest bin is so many times the middle one is drawn on a logarithmic scale. */

function layersSection(run) {
  const place = element("div");
  const made = section(
    "plan",
    "The network and its bits",
    element(
      "p",
      {},
      "From the input at the top to the output. A block is wider the more parameters its layer has (by the square " +
        "root); its colour is the bits of the weights, the strip below it those of the activations that it reads. " +
        "Choose a layer to see what it rounds.",
    ),
    run.plan.length > 1 &&
      element(
        "div",
        { class: "tools" },
        chooser(
          "Plan",
          run.plan.map((plan) => [plan.view, plan.view]),
          run.plan[0].view,
          (view) => draw(view),
        ),
      ),
    place,
  );
  function draw(view) {
    const plan = run.plan.find((each) => each.view === view);
    const detail = element("div", { id: "layer", "aria-live": "polite" });
    const first = plan.layers.find((layer) => layer.weight_bits < 32 || layer.activation_bits < 32) ?? plan.layers[0];
    const column = element("div");
    function choose(name) {
      const pressed = [...column.querySelectorAll("button[data-layer]")];
      pressed.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.layer === name)));
      detail.replaceChildren(
        ...layerDetail(
          run,
          view,
          plan.layers.find((layer) => layer.layer === name),
        ),
      );
    }
    column.append(bitsLegend(plan.layers), tower(plan.layers, first.layer, choose));
    place.replaceChildren(
      facts([
        ["weights of these layers", plan.average_bits === null ? null : `${number(plan.average_bits)} bits on average`],
        ["what they cost", plan.cost === null ? null : `${number(plan.cost)} (sum of multiplier × distance)`],
        ["size", sizeText(run, view)],
      ]),
      element("div", { class: "network" }, column, detail),
    );
    choose(first.layer);
  }
  draw(run.plan[0].view);
  return made;
}

function sizeText(run, view) {
  const row = run.size?.rows.find((each) => each.what === `${view}: parameters`);
  return row ? `${amount(row.low, "bytes")}, ${percent(row.low / row.float32, 1)} of float32` : null;
}

function layerDetail(run, view, layer) {
  const bound = run.constraints?.find((row) => row.where === layer.layer && row.view === view);
  const noise = run.noise?.find((row) => row.layer === layer.layer && row.view === view);
  const histograms = run.histograms?.find((row) => row.layer === layer.layer && row.view === view);
  return [
    element("h3", {}, layer.layer),
    facts([
      ["weights", bitsName(layer.weight_bits)],
      ["activations read", bitsName(layer.activation_bits)],
      ["why", layer.reason],
      ["parameters", count(layer.parameters)],
      ["multiply-accumulates", count(layer.operations)],
      ["multiplier", bound && number(bound.multiplier)],
      ["constraint", bound && badge(STATES[bound.state], bound.state)],
      ["signal-to-noise", noise && `${noise.validation.toFixed(1)} dB`],
    ]),
    histograms && histogramFigure("Weights", `${layer.layer}-weights`, histograms.weights),
    histograms?.activations &&
      histogramFigure("Activations that it reads", `${layer.layer}-activations`, histograms.activations),
    !histograms && note(layer.reason ? "Nothing is rounded here." : "No histograms are in this report."),
  ].filter(Boolean);
}

/** Values as an outline between two ends, and over them how many are rounded to each level. */
function histogramFigure(title, name, histogram) {
  const { low, high, counts, levels, at_levels: atLevels } = histogram;
  const width = (high - low) / counts.length;
  const total = counts.reduce((sum, each) => sum + each, 0) || 1;
  const values = counts.map((each, index) => ({ x: low + (index + 0.5) * width, y: each / total }));
  const rounded = levels.map((level, index) => ({ x: level, y: atLevels[index] / total }));
  const beyond = histogram.beyond > 0 ? `, ${percent(histogram.beyond, 1)} clipped` : "";
  const unit = histogram.in_steps ? "value in steps of its channel" : "value";
  const inUse = counts.filter((each) => each > 0).sort((left, right) => left - right);
  const isSpiky = inUse.at(-1) > SPIKE * inUse[Math.floor(inUse.length / 2)];
  const margin = 0.03 * (high - low);
  return figure({
    title: `${title}: ${levels.length ? `${plural(levels.length, "level")} in use` : "not rounded"}${beyond}`,
    name,
    height: 210,
    config: {
      data: {
        datasets: [
          {
            type: "line",
            label: "before rounding, in each bin",
            data: values,
            borderColor: faded(seriesColour(0), 0.7),
            backgroundColor: faded(seriesColour(0), 0.25),
            borderWidth: 1,
            pointRadius: 0,
            pointHitRadius: 6,
            stepped: "middle",
            fill: "start",
            yAxisID: "y",
            order: 2,
          },
          ...(levels.length
            ? [
                {
                  type: "bar",
                  label: "rounded to each level",
                  data: rounded,
                  backgroundColor: seriesColour(1),
                  barThickness: levels.length > 40 ? 1.5 : 4,
                  grouped: false,
                  yAxisID: "levels",
                  order: 1,
                },
              ]
            : []),
        ],
      },
      options: {
        parsing: false,
        scales: {
          x: {
            type: "linear",
            min: low - margin,
            max: high + margin,
            offset: false,
            title: { display: true, text: unit },
            grid: { display: false, offset: false },
            ticks: { callback: (value) => number(value), maxTicksLimit: 9 },
          },
          y: isSpiky
            ? {
                type: "logarithmic",
                ticks: { callback: roundPercent, maxTicksLimit: 4 },
                title: { display: true, text: "before (log scale)", color: seriesColour(0) },
              }
            : {
                beginAtZero: true,
                ticks: { callback: roundPercent, maxTicksLimit: 5 },
                title: { display: true, text: "before", color: seriesColour(0) },
              },
          ...(levels.length
            ? {
                levels: {
                  position: "right",
                  beginAtZero: true,
                  grid: { display: false },
                  ticks: { callback: roundPercent, maxTicksLimit: 5 },
                  title: { display: true, text: "rounded", color: seriesColour(1) },
                },
              }
            : {}),
        },
        plugins: {
          tooltip: {
            callbacks: {
              title: (items) => number(items[0].parsed.x),
              label: (item) => `${item.dataset.label}: ${percent(item.parsed.y)}`,
            },
          },
        },
      },
    },
    columns: () => [
      { label: "what", value: (row) => row.what },
      { label: unit, numeric: true, value: (row) => row.x },
      { label: "part of the values", numeric: true, value: (row) => row.y },
    ],
    rows: () => [
      ...values.map((row) => ({ what: "bin", ...row })),
      ...rounded.map((row) => ({ what: "level", ...row })),
    ],
  });
}
