"""How a federation changes while it runs: who proposes, who agrees, and what is in force."""
