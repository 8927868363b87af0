/* Exported files, each with a badge and the evidence behind it. */

const VERIFIED = {
  verified: ["good", "verified"],
  failed: ["bad", "does not pass"],
  unverified: ["warn", "not verified"],
};

function verificationSection(run) {
  return section(
    "verification",
    "Exported files",
    element(
      "p",
      {},
      "A file is verified if, on the samples that are looked at, every integer code and every output of each " +
        "runtime lies where the rounding of real numbers allows it to.",
    ),
    run.verification.map((file) =>
      element(
        "div",
        {},
        element("h3", {}, `${file.file} `, badge(...VERIFIED[file.state])),
        facts([
          ["size", amount(file.bytes, "bytes")],
          ["SHA-256", element("code", {}, file.sha256)],
        ]),
        file.runtimes.length > 0 &&
          table(
            [
              { label: "runtime", value: (row) => row.runtime },
              {
                label: "verified",
                value: (row) => (row.passes ? "pass" : "fail"),
                cell: (row) => badge(row.passes ? "good" : "bad", row.passes ? "pass" : "fail"),
              },
              {
                label: "samples",
                numeric: true,
                value: (row) => row.images,
                cell: (row) => row.images.toLocaleString("en"),
              },
              {
                label: "same choices",
                numeric: true,
                value: (row) => row.agreement,
                cell: (row) => percent(row.agreement),
              },
              { label: "accuracy", numeric: true, value: (row) => row.accuracy, cell: (row) => percent(row.accuracy) },
              {
                label: "simulated",
                numeric: true,
                value: (row) => row.simulated_accuracy,
                cell: (row) => percent(row.simulated_accuracy),
              },
              { label: "what differs", value: (row) => row.note },
            ],
            file.runtimes,
            { name: `${file.file}-verification` },
          ),
      ),
    ),
  );
}
