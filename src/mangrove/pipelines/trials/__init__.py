"""Pure functions of many small inputs, played by Spark's executors."""
