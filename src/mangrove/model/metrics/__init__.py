"""What is counted and measured, under the names by which it is collected: one table has them all."""
