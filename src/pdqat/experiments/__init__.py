"""Many runs: cells of a suite, the matrix that trains them, and what their numbers say."""
