"use strict";
/* Elements. Text becomes text nodes, never HTML, so a layer called "<b>" is shown as that. */

/**
 * Make an element.
 * Attributes that start with "on" are listeners, and `style` is a map of properties. Children are elements or text;
 * those that are null or false are left out.
 */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) made.style.setProperty(key, text);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) made.append(child);
  }
  return made;
}

/** A section of the page, listed in the navigation. */
function section(id, title, ...children) {
  return element(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    element("h2", { id: `${id}-title` }, title),
    ...children,
  );
}

/** A sentence in which what stands between backticks is code. */
function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

/** A name that may be broken behind its dots, slashes and underscores. */
function breakable(name) {
  return name.split(/(?<=[./_])/).flatMap((part, index) => (index ? [element("wbr"), part] : [part]));
}

function note(text) {
  return element("p", { class: "note" }, prose(text));
}

/** A list of labels and values. */
function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element(
    "dl",
    { class: "facts" },
    known.flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)]),
  );
}

/** A labelled choice; `choose` is called with the chosen value. */
function chooser(label, options, chosen, choose) {
  const select = element(
    "select",
    { onchange: () => choose(select.value) },
    options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)),
  );
  return element("label", {}, `${label} `, select);
}

const MARKS = { good: "✓", warn: "●", bad: "✗" };
function badge(kind, text) {
  return element("span", { class: `badge ${kind}`, "data-mark": MARKS[kind] }, text);
}

/** Offer text as a file. */
function download(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
