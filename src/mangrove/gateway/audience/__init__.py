"""Leave to be silent: publishers need not send what nobody in the federation listens to."""
