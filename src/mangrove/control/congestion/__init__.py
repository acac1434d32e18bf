"""Congestion control by usefulness (ePEER chapter 5): who speaks less when capacity is short."""
