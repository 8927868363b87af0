"""What every node of a graph makes of an example."""

from typing import Any

from torch import fx


class Made(fx.Interpreter):
    """Remembers what every node makes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.extra_traceback = False
        self.by_node: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Called by torch.fx."""
        made = super().run_node(n)
        self.by_node[n] = made
        return made
