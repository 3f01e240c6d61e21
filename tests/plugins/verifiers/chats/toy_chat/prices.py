"""The taskset's tools, which verifiers serves over MCP."""

import verifiers.v1 as vf

PRICES = {"pear": 3, "plum": 2}


class PricesToolset(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "shop"

    @vf.tool
    def price(self, item: str) -> str:
        """The price of a fruit."""
        return str(PRICES[item])


if __name__ == "__main__":
    PricesToolset.run()
