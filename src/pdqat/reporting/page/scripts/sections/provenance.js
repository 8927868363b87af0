/* Where the numbers come from, and what is not in the report. */

const TITLES = {
  scores: "scores",
  history: "the history",
  constraints: "the constraints",
  ranking: "the ranking of layers",
  plan: "the plan",
  frontier: "the frontier of plans",
  histograms: "histograms",
  noise: "signal-to-noise",
  size: "size and speed",
  choices: "choices and disagreements",
  verification: "exported files",
  provenance: "provenance",
};

function provenanceSection(run) {
  const { commands, configuration, versions, processor, checksum, checksum_of: checksumOf } = run.provenance;
  return section(
    "provenance",
    "Where this comes from",
    commands.length > 0 && [element("h3", {}, "Command"), element("pre", { tabindex: 0 }, commands.join("\n"))],
    facts([
      [
        "versions",
        Object.entries(versions)
          .map(([name, version]) => `${name} ${version}`)
          .join(", "),
      ],
      ["processor", processor],
      ["data, SHA-256", checksum && element("span", {}, element("code", {}, checksum), ` of ${checksumOf}`)],
    ]),
    configuration && [
      element("h3", {}, "Configuration"),
      element("pre", { tabindex: 0, "aria-label": "configuration" }, configuration),
    ],
    Object.keys(run.missing).length > 0 && [
      element("h3", {}, "Not in this report"),
      element(
        "ul",
        {},
        Object.entries(run.missing).map(([name, reason]) =>
          element("li", {}, prose(`${TITLES[name] ?? name}: ${reason}`)),
        ),
      ),
    ],
  );
}
