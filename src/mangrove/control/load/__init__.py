"""How loaded brokers are: from what they count to states, remaining capacity and a domain's load."""
