/* The network as a picture: a block for every layer, as wide as it has parameters, coloured by its bits. */

/** Black or white, whichever can be read on a colour. */
function inkOn(hex) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#14181f" : "#ffffff";
}

function bitsLegend(layers) {
  const used = [...new Set(layers.flatMap((layer) => [layer.weight_bits, layer.activation_bits]))].sort(
    (left, right) => left - right,
  );
  return element(
    "p",
    { class: "legend" },
    used.map((bits) => element("span", { style: { "--swatch": `var(--bits-${bits})` } }, bitsName(bits))),
  );
}

/** Layer by layer from the input to the output; a click chooses a layer. */
function tower(layers, chosen, choose) {
  const most = Math.max(...layers.map((layer) => layer.parameters ?? 1));
  return element(
    "ol",
    { class: "tower", "aria-label": "Layers, from the input to the output" },
    layers.map((layer) => {
      const width = 100 * Math.max(0.12, Math.sqrt((layer.parameters ?? most) / most));
      const fill = colour(`bits-${layer.weight_bits}`);
      const block = element(
        "span",
        { class: "block", style: { width: `${width}%`, background: fill, color: inkOn(fill) } },
        element("b", {}, layer.precision),
        element("i", { style: { background: colour(`bits-${layer.activation_bits}`) } }),
      );
      const about = [
        `weights ${bitsName(layer.weight_bits)}`,
        `activations ${bitsName(layer.activation_bits)}`,
        `${count(layer.parameters)} parameters`,
      ].join(", ");
      return element(
        "li",
        {},
        element(
          "button",
          {
            type: "button",
            "aria-pressed": String(layer.layer === chosen),
            title: about,
            "data-layer": layer.layer,
            onclick: () => choose(layer.layer),
          },
          block,
          element("span", { class: "label" }, layer.layer),
        ),
      );
    }),
  );
}

/** A plan as a strip of colours. */
function strip(precisions) {
  const bits = precisions.map(weightBits);
  return element(
    "span",
    { class: "strip", role: "img", "aria-label": `weight bits by layer: ${bits.join(", ")}` },
    bits.map((each) => element("i", { style: { background: `var(--bits-${each})` }, title: bitsName(each) })),
  );
}

/** Of a precision as people write it: "2", "w4a8", "a8", "full". */
function weightBits(precision) {
  const match = /^w?(\d+)/.exec(precision);
  return match ? Number(match[1]) : 32;
}
