"""One subscriber that reads at a tenth of the rate, among others that do not."""
