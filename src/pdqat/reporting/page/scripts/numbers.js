/* Numbers as people write them. */

/** Four significant digits, and powers of ten where decimals would show nothing. */
function number(value, sign = false) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text =
    size === 0 ? "0" : size >= 1e6 || size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
  return sign && value > 0 ? `+${text}` : text;
}

function percent(value, digits = 2) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`;
}

/** For axes: no more digits than it takes. */
function roundPercent(value) {
  return `${Number((100 * value).toFixed(2))} %`;
}

/** A score: an accuracy in per cent, anything else as it is. */
function score(value, isShare) {
  return isShare ? percent(value) : number(value);
}

function scoreAxis(isShare) {
  return isShare ? roundPercent : number;
}

/** The difference of two scores: of accuracies in percentage points. */
function scoreDifference(value, isShare) {
  if (value === null || value === undefined) return "–";
  return isShare ? `${value > 0 ? "+" : ""}${(100 * value).toFixed(2)} points` : number(value, true);
}

/** With k, M and G. */
function count(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of [
    ["T", 1e12],
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ]) {
    if (value >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}

/** An amount with its unit. */
function amount(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "ms") return `${number(value)} ms`;
  return `${count(value)}${value >= 1e3 ? "" : " "}${unit === "bytes" ? "B" : unit}`.trim();
}

/** "1 layer", "2 layers". */
function plural(total, word) {
  return `${total.toLocaleString("en")} ${word}${total === 1 ? "" : "s"}`;
}

/** What a precision is called: 32 bits stand for full precision. */
function bitsName(bits) {
  return bits === 32 ? "full precision" : plural(bits, "bit");
}

/** The end of a long layer name, for axes. */
function shortName(name, length = 26) {
  return name.length <= length ? name : `…${name.slice(1 - length)}`;
}
