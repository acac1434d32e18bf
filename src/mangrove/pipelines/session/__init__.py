"""What a Spark session needs around it: its process, its limits, and an eye on the cluster."""
