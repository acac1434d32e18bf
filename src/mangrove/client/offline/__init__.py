"""What is published while no broker can be reached: kept within bounds, sent in order when one is back."""
