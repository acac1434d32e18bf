"""How much leaves a domain and enters it: rates of contracts and of clients, and the agent's limits."""
