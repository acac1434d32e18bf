"""ePEER's §5.3: congestion control by usefulness after damage, through the agents' production code."""
