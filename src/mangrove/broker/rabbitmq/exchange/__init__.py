"""The federated exchange: what is bound to it by whom, and what the gateway binds."""
