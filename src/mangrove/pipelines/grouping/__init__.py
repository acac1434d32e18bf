"""More topics than fit in a matrix: dealt to items first, figures of items from exact sums."""
