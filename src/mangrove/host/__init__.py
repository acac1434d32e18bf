"""This machine: processes, ports, sockets, the run directory and the runtime file."""
