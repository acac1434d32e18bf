"""What words mean, learnt from the federation's own messages."""
