"""How good an allocation is: risk, scores, feasibility, and the checked result."""
