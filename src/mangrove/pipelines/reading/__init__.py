"""Tables of the lake as Spark data frames."""
