"""The environment server: leases, the workers behind them, HTTP and the stream before them."""
