"""The agents of a domain: who lives, and what all of them hold before it is in force."""
