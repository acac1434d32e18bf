"""Tables calculated before the failure: colours, tables, their condensed form, forwarding by them."""
