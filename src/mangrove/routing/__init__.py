"""Pure routing: graphs, geography, paths and tables. No I/O, no clock."""
