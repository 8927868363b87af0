/* The page: header, navigation and the sections of the run that is shown. */

const report = JSON.parse(document.getElementById("document").textContent);
const SECTIONS = [
  ["overview", "Overview", overviewSection, () => true],
  ["scores", "Scores", scoresSection],
  ["history", "Epochs", historySection],
  ["constraints", "Constraints", constraintsSection],
  ["plan", "Network and bits", layersSection],
  ["ranking", "Ranking", rankingSection],
  ["frontier", "Frontier", frontierSection],
  ["noise", "Signal-to-noise", noiseSection],
  ["size", "Size and speed", sizeSection],
  ["choices", "Choices", choicesSection],
  ["verification", "Exported files", verificationSection],
  ["provenance", "Provenance", provenanceSection],
];
const page = { run: 0, theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" };

function showHeader() {
  const other = page.theme === "dark" ? "light" : "dark";
  const title = report.runs.length > 1 ? plural(report.runs.length, "run") : report.runs[0].name;
  document.title = `${title}: pdqat report`;
  document.getElementById("header").replaceChildren(
    element(
      "div",
      { class: "title" },
      element("h1", {}, `pdqat report: ${title}`),
      element("span", { class: "made" }, `pdqat ${report.pdqat}, ${report.made}`),
    ),
    ...[
      report.runs.length > 1 &&
        chooser(
          "Run",
          report.runs.map((run, index) => [String(index), run.name]),
          String(page.run),
          (index) => {
            page.run = Number(index);
            show();
          },
        ),
      element(
        "button",
        {
          type: "button",
          id: "json",
          onclick: () => download("report.json", "application/json", JSON.stringify(report, null, 1)),
        },
        "JSON",
      ),
      element(
        "button",
        {
          type: "button",
          id: "theme",
          "aria-pressed": String(page.theme === "dark"),
          "aria-label": "Dark colours",
          onclick: () => {
            page.theme = other;
            show();
          },
        },
        page.theme === "dark" ? "☀ Light" : "☾ Dark",
      ),
    ].filter(Boolean),
  );
}

function show() {
  document.documentElement.dataset.theme = page.theme;
  prepareCharts();
  showHeader();
  const run = report.runs[page.run];
  const shown = SECTIONS.filter(([name, , , applies]) => (applies ? applies() : run[name] !== undefined));
  const compared = report.runs.length > 1;
  document.getElementById("sections").replaceChildren(
    element(
      "ol",
      {},
      [...(compared ? [["compare", "Side by side"]] : []), ...shown].map(([name, title]) =>
        element("li", {}, element("a", { href: `#${name}` }, title)),
      ),
    ),
  );
  document
    .getElementById("content")
    .replaceChildren(...(compared ? [compareSection(report.runs)] : []), ...shown.map(([, , make]) => make(run)));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
  page.theme = event.matches ? "dark" : "light";
  show();
});
show();
