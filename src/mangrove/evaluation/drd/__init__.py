"""ePEER's §4.5: delay-requirement-driven offloading against PEER, through the agents' production code."""
