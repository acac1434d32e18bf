"""Subscribers that select by headers: who they are here, and what is kept back for those elsewhere."""
