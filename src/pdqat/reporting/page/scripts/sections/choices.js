/* What a classifier chooses: its confusions, and the samples on which full and low precision disagree. */

const MOST_CLASSES = 20;

function choicesSection(run) {
  const { choices } = run;
  const views = Object.keys(choices.views);
  const low = views.filter((view) => view !== "full");
  const matrix = element("div");
  const gallery = element("div");
  const shown = low[0] ?? views[0];
  function drawMatrix(view) {
    const { confusion } = choices.views[view];
    matrix.replaceChildren(
      choices.classes.length <= MOST_CLASSES
        ? confusionMatrix(choices.classes, confusion)
        : mostConfused(choices.classes, confusion),
    );
  }
  drawMatrix(shown);
  if (low.length) gallery.replaceChildren(...disagreements(choices, low[0]));
  return section(
    "choices",
    "Choices and disagreements",
    element(
      "p",
      {},
      `On ${plural(choices.samples, "validation sample")}. Rows are the true classes, columns what the model chooses.`,
    ),
    element(
      "div",
      { class: "tools" },
      chooser(
        "Confusion matrix of",
        views.map((view) => [view, view === "full" ? KINDS.full : view]),
        shown,
        drawMatrix,
      ),
    ),
    matrix,
    low.length > 1 &&
      element(
        "div",
        { class: "tools" },
        chooser(
          "Disagreements of",
          low.map((view) => [view, view]),
          low[0],
          (view) => gallery.replaceChildren(...disagreements(choices, view)),
        ),
      ),
    gallery,
  );
}

function confusionMatrix(classes, entries) {
  const counts = new Map(entries.map(([target, choice, times]) => [`${target} ${choice}`, times]));
  const totals = classes.map((_, target) =>
    classes.reduce((sum, _name, choice) => sum + (counts.get(`${target} ${choice}`) ?? 0), 0),
  );
  return element(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "confusion matrix" },
    element(
      "table",
      { class: "confusion" },
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "col" }, "true ╲ chosen"),
          classes.map((name) => element("th", { scope: "col" }, name)),
        ),
      ),
      element(
        "tbody",
        {},
        classes.map((name, target) =>
          element(
            "tr",
            {},
            element("th", { scope: "row" }, name),
            classes.map((_, choice) => {
              const times = counts.get(`${target} ${choice}`) ?? 0;
              const part = totals[target] ? times / totals[target] : 0;
              const tint = target === choice ? "var(--series-1)" : "var(--bad)";
              const strength = target === choice ? part : Math.min(1, 3 * part);
              return element(
                "td",
                {
                  class: strength > 0.55 && "strong",
                  style: { "--tint": tint, "--share": `${Math.round(100 * strength)}%` },
                },
                times ? String(times) : "",
              );
            }),
          ),
        ),
      ),
    ),
  );
}

/** For many classes: the pairs that are confused most often. */
function mostConfused(classes, entries) {
  const wrong = entries.filter(([target, choice]) => target !== choice).sort((left, right) => right[2] - left[2]);
  return table(
    [
      { label: "true class", value: ([target]) => classes[target] ?? target },
      { label: "chosen", value: ([, choice]) => classes[choice] ?? choice },
      { label: "times", numeric: true, value: ([, , times]) => times },
    ],
    wrong,
    { name: "confusions", search: true },
  );
}

function disagreements(choices, view) {
  const { differing, disagreements: samples } = choices.views[view];
  if (differing === null) return [note("Full precision was not trained, so there is nothing to disagree with.")];
  const name = (label) => choices.classes[label] ?? String(label);
  const line = (who, label, target) =>
    element(
      "div",
      { class: label === target ? "right" : "wrong" },
      `${who}: ${name(label)} ${label === target ? "✓" : "✗"}`,
    );
  return [
    element("h3", {}, `Full precision and ${view} disagree on ${differing} of ${plural(choices.samples, "sample")}`),
    samples.length < differing ? note(`The first ${samples.length} of them.`) : null,
    element(
      "ul",
      { class: "gallery" },
      samples.map((sample) =>
        element(
          "li",
          {},
          sample.picture &&
            element("img", {
              src: sample.picture,
              alt: `validation sample ${sample.sample}, a ${name(sample.target)}`,
            }),
          element("div", {}, `${sample.picture ? "" : `sample ${sample.sample}: `}${name(sample.target)}`),
          line("full", sample.full, sample.target),
          line("low", sample.low, sample.target),
        ),
      ),
    ),
  ].filter(Boolean);
}
