"""What is planned for the day when something fails: mirrors and the case base."""
