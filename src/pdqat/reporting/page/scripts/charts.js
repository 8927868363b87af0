/* Charts by Chart.js, in the colours of the page, each with the table of its numbers behind it. */

const drawn = [];

/** A colour of the style sheet. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function seriesColour(index) {
  return colour(`series-${(index % 8) + 1}`);
}

function faded(hex, share) {
  return `${hex}${Math.round(255 * share)
    .toString(16)
    .padStart(2, "0")}`;
}

/** Set what all charts share; again when the theme changes. */
function prepareCharts() {
  drawn.splice(0).forEach((chart) => chart.destroy());
  Object.assign(Chart.defaults, {
    animation: false,
    maintainAspectRatio: false,
    color: colour("soft"),
    borderColor: colour("line"),
  });
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.plugins.legend.labels.boxWidth = 14;
  Chart.defaults.plugins.legend.align = "start";
}

/**
 * A figure with a chart.
 * title, height (pixels), config (Chart.js), columns and rows (the numbers behind it), name (of their CSV file).
 */
function figure({ title, height = 280, config, columns, rows, name }) {
  const canvas = element("canvas", {
    role: "img",
    "aria-label": `Chart: ${title}. Its numbers are in the table below it.`,
  });
  const made = element(
    "figure",
    {},
    element("figcaption", {}, title),
    element("div", { class: "canvas", style: { height: `${height}px` } }, canvas),
  );
  if (columns) {
    const behind = element(
      "details",
      {
        ontoggle: () =>
          behind.open && behind.children.length === 1 && behind.append(table(columns(), rows(), { name })),
      },
      element("summary", {}, "The numbers"),
    );
    made.append(behind);
  }
  requestAnimationFrame(() => canvas.isConnected && drawn.push(new Chart(canvas, config)));
  return made;
}

/** Vertical lines at values of x, each with a label at its top. */
function markers(lines) {
  return {
    id: "markers",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      ctx.save();
      for (const { at, label } of lines) {
        const x = scales.x.getPixelForValue(at);
        if (!(x >= chartArea.left && x <= chartArea.right)) continue;
        ctx.strokeStyle = colour("soft");
        ctx.lineWidth = 1;
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(x, chartArea.top);
        ctx.lineTo(x, chartArea.bottom);
        ctx.stroke();
        ctx.fillStyle = colour("soft");
        ctx.font = `12px ${Chart.defaults.font.family}`;
        const atRight = x > (chartArea.left + chartArea.right) / 2;
        ctx.textAlign = atRight ? "right" : "left";
        ctx.setLineDash([]);
        ctx.lineWidth = 4;
        ctx.strokeStyle = colour("card");
        ctx.strokeText(label, x + (atRight ? -5 : 5), chartArea.bottom - 8);
        ctx.fillText(label, x + (atRight ? -5 : 5), chartArea.bottom - 8);
      }
      ctx.restore();
    },
  };
}

/** The entries of a legend, whose lines are dashed as those of the chart are. */
function dashedLabels(chart) {
  const labels = Chart.defaults.plugins.legend.labels.generateLabels(chart);
  return labels.map((label) => ({ ...label, lineDash: chart.data.datasets[label.datasetIndex].borderDash }));
}

/** Lines over epochs; series: [{label, values, dashed?, hue? (the number of the colour)}]. */
function epochChart({ title, name, epochs, series, yTitle, format = number, axis = format, marks = [], height }) {
  return figure({
    title,
    name,
    height,
    config: {
      type: "line",
      data: {
        labels: epochs,
        datasets: series.map(({ label, values, dashed, hue }, index) => ({
          label,
          data: values,
          borderColor: seriesColour(hue ?? index),
          backgroundColor: seriesColour(hue ?? index),
          borderWidth: 2,
          pointRadius: epochs.length > 30 ? 0 : 2.5,
          pointHitRadius: 8,
          borderDash: dashed ? [6, 4] : [],
          spanGaps: false,
        })),
      },
      options: {
        interaction: { mode: "index", intersect: false },
        scales: {
          x: {
            type: "linear",
            title: { display: true, text: "epoch" },
            min: epochs[0],
            max: Math.max(epochs.at(-1), epochs[0] + 1),
            ticks: { precision: 0 },
            grid: { display: false },
          },
          y: { title: { display: true, text: yTitle }, ticks: { callback: (value) => axis(value) } },
        },
        plugins: {
          legend: {
            labels: { usePointStyle: true, pointStyle: "line", pointStyleWidth: 28, generateLabels: dashedLabels },
          },
          tooltip: {
            callbacks: {
              title: (items) => `epoch ${items[0].parsed.x}`,
              label: (item) => `${item.dataset.label}: ${format(item.parsed.y)}`,
            },
          },
        },
      },
      plugins: [markers(marks)],
    },
    columns: () => [
      { label: "epoch", numeric: true, value: (row) => epochs[row] },
      ...series.map(({ label, values }) => ({ label, numeric: true, value: (row) => values[row] })),
    ],
    rows: () => epochs.map((_, row) => row),
  });
}

/** Horizontal bars, one group for each name; series: [{label, values, colours?}]. */
function barChart({ title, name, names, series, xTitle, format = number, axis = format, least, behind = true }) {
  const withNames = series.length > 1;
  return figure({
    title,
    name,
    height: 60 + names.length * (withNames ? 12 * series.length + 8 : 22) + (withNames ? 24 : 0),
    config: {
      type: "bar",
      data: {
        labels: names.map((each) => shortName(each)),
        datasets: series.map(({ label, values, colours }, index) => ({
          label,
          data: values,
          backgroundColor: colours ?? seriesColour(index),
          borderRadius: 3,
          barPercentage: 0.9,
          categoryPercentage: 0.8,
        })),
      },
      options: {
        indexAxis: "y",
        scales: {
          x: { title: { display: true, text: xTitle }, min: least, ticks: { callback: (value) => axis(value) } },
          y: { ticks: { autoSkip: false }, grid: { display: false } },
        },
        plugins: {
          legend: { display: withNames },
          tooltip: {
            callbacks: {
              title: (items) => names[items[0].dataIndex],
              label: (item) => `${item.dataset.label}: ${format(item.parsed.x)}`,
            },
          },
        },
      },
    },
    columns: behind
      ? () => [
          { label: "name", value: (row) => names[row] },
          ...series.map(({ label, values }) => ({ label, numeric: true, value: (row) => values[row] })),
        ]
      : null,
    rows: () => names.map((_, row) => row),
  });
}
