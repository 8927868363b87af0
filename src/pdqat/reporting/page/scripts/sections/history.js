/* The training, epoch by epoch. */

const QUANTITIES = { multiplier: "multiplier", slack: "slack", distance: "distance" };
const AT_FIRST = 5;

function historySection(run) {
  const { history, scores } = run;
  const marks = [
    ...(history.chosen ? [{ at: history.chosen, label: "chosen" }] : []),
    ...history.bits_chosen.map((at) => ({ at, label: "bits chosen" })),
  ];
  const title = scores.metric.replaceAll("_", " ");
  const series = Object.entries(history.scores).map(([view, values]) => ({
    label: view === "full" ? KINDS.full : view,
    values,
  }));
  const losses = [
    ["objective, as trained", history.objective],
    ["task loss, validation", history.loss],
  ].filter(([, values]) => values.some((value) => value !== null));
  return section(
    "history",
    "Over the epochs",
    element(
      "div",
      { class: "columns" },
      epochChart({
        title: `${title} on validation samples`,
        name: "scores-by-epoch",
        epochs: history.epochs,
        series,
        yTitle: title,
        format: (value) => score(value, scores.is_share),
        axis: scoreAxis(scores.is_share),
        marks,
      }),
      epochChart({
        title: "What was minimised",
        name: "losses-by-epoch",
        epochs: history.epochs,
        series: losses.map(([label, values]) => ({ label, values })),
        yTitle: "loss",
        marks,
      }),
    ),
    history.flip_rate.some((rate) => rate !== null) &&
      epochChart({
        title: "Codes of weights that change in a step",
        name: "flips-by-epoch",
        epochs: history.epochs,
        series: [{ label: "flip rate", values: history.flip_rate }],
        yTitle: "part of the codes",
        marks,
      }),
    history.bounds.length > 0 && boundsOverEpochs(run, marks),
  );
}

/** Every multiplier, slack and distance, of the constraints that are ticked. */
function boundsOverEpochs(run, marks) {
  const { history } = run;
  const lastOf = (bound) => bound.multiplier.findLast((value) => value !== null) ?? 0;
  const byMultiplier = [...history.bounds].sort((left, right) => lastOf(right) - lastOf(left));
  const shown = { quantity: "multiplier", names: new Set(byMultiplier.slice(0, AT_FIRST).map((bound) => bound.name)) };
  const place = element("div");
  const boxes = history.bounds.map((bound) =>
    element("input", {
      type: "checkbox",
      value: bound.name,
      checked: shown.names.has(bound.name),
      onchange: (event) => {
        if (event.target.checked) shown.names.add(bound.name);
        else shown.names.delete(bound.name);
        draw();
      },
    }),
  );
  const views = new Set(history.bounds.map((bound) => bound.name.split("/")[0]));
  const boundName = (name) => (views.size > 1 ? name : name.split("/").slice(1).join("/"));
  function tick(wanted) {
    shown.names = new Set(wanted.map((bound) => bound.name));
    boxes.forEach((box) => {
      box.checked = shown.names.has(box.value);
    });
    draw();
  }
  function draw() {
    const bounds = history.bounds.filter((bound) => shown.names.has(bound.name));
    place.replaceChildren(
      bounds.length === 0
        ? note("Choose at least one constraint.")
        : epochChart({
            title: `${QUANTITIES[shown.quantity]} of ${plural(bounds.length, "constraint")}`,
            name: `${shown.quantity}-by-epoch`,
            epochs: history.epochs,
            height: 340,
            series: bounds.map((bound) => ({ label: boundName(bound.name), values: bound[shown.quantity] })),
            yTitle: QUANTITIES[shown.quantity],
            marks,
          }),
    );
  }
  draw();
  return element(
    "div",
    { id: "bounds" },
    element("h3", {}, "Every constraint over the epochs"),
    note(
      "A multiplier rises while its constraint is violated and says, once it rests, what the constraint costs the " +
        "objective. The slack is distance minus tolerance: above 0 it is violated.",
    ),
    element(
      "div",
      { class: "tools" },
      chooser("Show", Object.entries(QUANTITIES), shown.quantity, (value) => {
        shown.quantity = value;
        draw();
      }),
      element(
        "button",
        { type: "button", onclick: () => tick(byMultiplier.slice(0, AT_FIRST)) },
        `${AT_FIRST} largest`,
      ),
      element("button", { type: "button", onclick: () => tick(history.bounds) }, "All"),
      element("button", { type: "button", onclick: () => tick([]) }, "None"),
    ),
    place,
    element(
      "fieldset",
      {},
      element("legend", {}, "Constraints"),
      element(
        "div",
        { class: "chooser" },
        history.bounds.map((bound, index) => element("label", {}, boxes[index], boundName(bound.name))),
      ),
    ),
  );
}
