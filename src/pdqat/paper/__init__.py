"""The paper's tables and figures from finished runs: suites of cells, a matrix that trains them, and what they show."""
