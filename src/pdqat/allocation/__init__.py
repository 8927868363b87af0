"""From prices of precision and a budget to a plan."""
