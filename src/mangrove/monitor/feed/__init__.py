"""What is known of a running federation at this moment, heard once for all who look at it."""
